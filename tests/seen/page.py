"""Runs in a browser: what the pages say while a run trains and after it, and that the real Chromium shows them, loads
nothing else and fetches them again by itself."""
import contextlib
import html
import http.server
import json
import pathlib
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import chromium
import runs


def get(address):
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read()


class Between(http.server.ThreadingHTTPServer):
    """Stands between a browser and muster, and counts what is asked for."""
    def __init__(self, behind):
        super().__init__(("127.0.0.1", 0), Passing)
        self.behind, self.asked = behind, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Passing(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        try:
            body = get(urllib.parse.urljoin(self.server.behind, self.path))
        except urllib.error.HTTPError as error:
            return self.send_error(error.code)
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def pages(muster, folder):
    """Where muster page shows the runs of the folder, meanwhile."""
    server = subprocess.Popen([muster, "page", str(folder / "runs"), "--json"], stdout=subprocess.PIPE, text=True)
    runs.STARTED.append(server)
    address = json.loads(server.stdout.readline())["page"]
    assert address.startswith("http://127.0.0.1:"), address
    yield address
    server.terminate()
    server.wait()


def link_to(run, address):
    """The run's page, as the one of all runs links to it."""
    (link,) = [found for found in re.findall(r'href="(/run/[^"]+)"', get(address).decode()) if found.endswith(run.name)]
    return link


def members(text):
    """Process ids of the workers, by number, as the page's table has them."""
    return {int(worker): int(pid) for worker, pid in re.findall(r"<tr><td>\d+<td>(\d+)<td class=key>\S+ (\d+)<td", text)}


def who_is_there(page, training, workers):
    """Who trains, and where one is lost who is there instead, and that it was; of one worker nobody would go on."""
    shows_all = lambda: members(get(page).decode()) == runs.workers_of(training)
    runs.wait_for(shows_all, "all workers in the page")
    if workers == 1:
        return
    lost = members(get(page).decode())[workers - 1]
    runs.kill(lost)
    runs.wait_for(lambda: lost not in members(get(page).decode()).values() and shows_all() and
                  len(members(get(page).decode())) == workers, "another worker in the page")
    happened = html.unescape(get(page).decode()).split("What happened, the last first")[1]
    assert re.search(rf"worker {workers - 1} \(pid {lost} on \S+\) killed by SIGKILL", happened), happened
    assert f"worker {workers - 1} is started anew" in happened, happened


def log_is_there(page, run):
    """The end of the first worker's, to where it was when it was fetched."""
    shown = html.unescape(get(page).decode().split("<summary>Log of worker 0</summary><pre>")[1].split("</pre>")[0])
    written = (run / "logs/rank-0.log").read_text()
    assert len(shown) > 20 and shown in written and " in generation 1: pid " in shown, (shown, written)


def while_it_trains(muster, folder, workers):
    job = runs.write_job(folder, "mlp", steps=10**6)
    training = runs.start(muster, job, "--workers", str(workers), *runs.settings(*runs.UNTIL_STOPPED))
    run = runs.wait_for_step(training, folder, 60)
    runs.wait_for(lambda: (run / "live.json").exists(), "what workers do now")
    with pages(muster, folder) as address:
        link = link_to(run, address)
        page = urllib.parse.urljoin(address, link)
        runs.wait_for(lambda: get(page).decode().count("<div class=bar>") == workers, "what every worker does now")
        text = get(page).decode()
        assert ">running<" in text and text.count("<svg") >= 3 and text.count("<div class=bar>") == workers, text
        assert not re.search(r"(src|href)=.?https?:", text), "it loads something"
        who_is_there(page, training, workers)
        log_is_there(page, run)

        between = Between(address)
        shown = chromium.shown(folder, between.address + link, "--dump-dom")
        assert shown.count('<div class="bar">') == workers, shown
        again = [path for path in between.asked if path == link]
        assert len(again) >= 3 and set(between.asked) <= {link, "/favicon.ico"}, between.asked

        training.terminate()
        assert runs.finish(training)[0] == 143
        assert ">stopped: as asked, checkpoint written<" in get(page).decode()


def by_one(muster, folder):
    while_it_trains(muster, folder, 1)


def by_three(muster, folder):
    while_it_trains(muster, folder, 3)


def light_and_dark(muster, folder):
    """As the system asks for it: dark on light, or light on dark. The run has ended, so that nothing else changes."""
    with pages(muster, folder) as address:
        page = chromium.Page(folder, urllib.parse.urljoin(address, link_to(runs.latest(folder), address)))
        page.wait_for("document.readyState == 'complete' && document.querySelector('svg') != null", "the page")

        def brightness(colour):
            channels = re.findall(r"\d+", page.value(f"getComputedStyle(document.body).{colour}"))
            assert len(channels) == 3, channels
            return sum(map(int, channels)) / 3

        for scheme, dark in (("light", False), ("dark", True)):
            page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            ground, ink = brightness("backgroundColor"), brightness("color")
            assert abs(ground - ink) > 150 and (ground < ink) == dark, (scheme, ground, ink)
            page.picture(folder / f"{scheme}.png", settle=0)
            assert (folder / f"{scheme}.png").stat().st_size > 20000, scheme
        page.close()


def page_of_the_training_itself(muster, folder):
    job = runs.write_job(folder, "mlp", steps=10**6)
    training = runs.start(muster, job, "--workers", "3", "--page", *runs.settings(*runs.UNTIL_STOPPED))
    told = (re.search(r"page (http://127.0.0.1:\d+/)", line) for line in training.stdout)
    address = next(found[1] for found in told if found)
    run = runs.wait_for_step(training, folder, 1)
    assert ">running<" in get(urllib.parse.urljoin(address, f"run/{run.relative_to(folder / 'runs')}")).decode()
    training.terminate()
    assert runs.finish(training)[0] == 143
    try:
        get(address)
    except urllib.error.URLError:
        return
    raise AssertionError("somebody still answers")


def main():
    arguments = runs.arguments()
    runs.play((by_one, by_three, light_and_dark, page_of_the_training_itself), arguments.muster)


if __name__ == "__main__":
    main()
