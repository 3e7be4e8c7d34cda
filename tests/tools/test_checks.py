"""Each check of tools/ finds what is planted for it, names the file and the line, and is content
with its opposite."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Options(unittest.TestCase):
    def test_what_is_not_known_shows_the_usage_and_checks_nothing(self):
        for check in sorted((ROOT / "tools").glob("check_*.py")):
            for option, status in (("--help", 0), ("--no-such", 2)):
                done = subprocess.run([sys.executable, check, option], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, status, check)
                self.assertIn("usage: tools/", done.stdout)
                self.assertNotIn("files)", done.stdout)


class PlantedTree(unittest.TestCase):
    """A small source tree of the test's own, which a check is run on."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = Path(place.name)

    def plant(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def check(self, name):
        done = subprocess.run([sys.executable, ROOT / "tools" / name, self.root],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def assert_found(self, check, *expected):
        status, output = self.check(check)
        self.assertEqual(status, 1, output)
        for text in expected:
            self.assertIn(text, output)

    def assert_good(self, check):
        status, output = self.check(check)
        self.assertEqual(status, 0, output)


class Layers(PlantedTree):
    def test_include_upwards(self):
        self.plant("muster/base/x.cc", '#include <vector>\n#include "muster/comm/op.h"\n')
        self.assert_found("check_layers.py", "muster/base/x.cc:2:", "muster/comm/op.h")

    def test_include_downwards(self):
        self.plant("muster/comm/x.cc", '#include "muster/base/error.h"\n')
        self.assert_good("check_layers.py")

    def test_single_header_of_a_layer(self):
        self.plant("muster/comm/x.cc", '#include "muster/cluster/store.h"\n')
        self.assert_good("check_layers.py")
        self.plant("muster/comm/x.cc", '#include "muster/cluster/launcher.h"\n')
        self.assert_found("check_layers.py", "muster/comm/x.cc:1:")

    def test_leaf_included_by_its_layer(self):
        leaf = '#include "muster/comm/backend/native/native.h"\n'
        self.plant("muster/app/compose.cc", leaf)
        self.plant("muster/comm/native_test.cc", leaf)
        self.plant("muster/comm/backend/native/executor.cc", leaf)
        self.assert_good("check_layers.py")
        self.plant("muster/comm/choose.cc", leaf)
        self.assert_found("check_layers.py", "muster/comm/choose.cc:1:", "leaf")

    def test_leaf_included_by_another_leaf(self):
        self.plant("muster/comm/backend/native/x.cc",
                   '#include "muster/comm/backend/loopback/loopback.h"\n')
        self.assert_found("check_layers.py", "muster/comm/backend/native/x.cc:1:")

    def test_testing_in_the_product(self):
        self.plant("muster/comm/x_test.cc", '#include "muster/testing/fake_clock.h"\n')
        self.assert_good("check_layers.py")
        self.plant("muster/comm/x.cc", '#include "muster/testing/fake_clock.h"\n')
        self.assert_found("check_layers.py", "muster/comm/x.cc:1:", "tests only")

    def test_testing_of_a_layer_in_the_product(self):
        self.plant("muster/comm/testing/x.cc", "#include <gtest/gtest.h>\n")
        self.plant("muster/cluster/x_test.cc", '#include "muster/net/testing/recorder.h"\n')
        self.assert_good("check_layers.py")
        self.plant("muster/cluster/x.cc", '#include "muster/net/testing/recorder.h"\n')
        self.assert_found("check_layers.py", "muster/cluster/x.cc:1:", "tests only")

    def test_libtorch_below_models(self):
        self.plant("muster/models/x.cc", "#include <torch/torch.h>\n")
        self.assert_good("check_layers.py")
        for layer in ("comm", "data", "checkpoint", "cli"):
            self.plant(f"muster/{layer}/x.cc", "#include <ATen/ATen.h>\n")
            self.assert_found("check_layers.py", f"muster/{layer}/x.cc:1:")

    def test_libtorch_in_a_test_below_models(self):
        self.plant("muster/comm/x_test.cc", "#include <torch/torch.h>\n")
        self.assert_found("check_layers.py", "muster/comm/x_test.cc:1:", "without libtorch")

    def test_library_outside_its_layer(self):
        self.plant("muster/train/x.cc", "#include <yaml-cpp/yaml.h>\n")
        self.assert_found("check_layers.py", "muster/train/x.cc:1:", "job")

    def test_library_that_nobody_uses(self):
        for header in ("grpcpp/grpcpp.h", "google/protobuf/message.h", "curl/curl.h", "sodium.h"):
            self.plant("muster/train/x.cc", f"#include <{header}>\n")
            self.assert_found("check_layers.py", "muster/train/x.cc:1:", "no library that is used here")

    def test_header_beside_or_above(self):
        for header in ("../comm/op.h", "op.h", "comm/op.h"):
            self.plant("muster/base/x.cc", f'#include "{header}"\n')
            self.assert_found("check_layers.py", "muster/base/x.cc:1:", "named from its root")

    def test_unknown_layer(self):
        self.plant("muster/extras/x.cc", "int x;\n")
        self.assert_found("check_layers.py", "extras is no layer")


class Symbols(PlantedTree):
    def test_each_kind(self):
        planted = {
            "time": "auto t = std::chrono::steady_clock::now();",
            "the system's clock": "auto t = system_clock().now();",
            "wait": "changed_.wait_for(lock, 1s);",
            "poll": "::poll(&wanted, 1, 30);",
            "sleep": "std::this_thread::sleep_for(1s);",
            "entropy": "std::random_device device;",
            "sockets": "int s = ::socket(AF_INET, SOCK_STREAM, 0);",
            "files": "std::ofstream out(path);",
            "shared memory": "int s = shm_open(name, 0, 0);",
            "another process's memory": "auto read = ::process_vm_readv(pid, to, 1, from, 1, 0);",
            "processes": "auto child = fork();",
            "environment": "auto home = std::getenv(name);",
            "terminal": "if (::isatty(1)) show();",
            "machine": "::gethostname(name, sizeof name);",
            "exit": "std::abort();",
            "assert": "assert(x);",
            "feature switch": "#ifdef MUSTER_CUDA",
            "the system's headers": "#include <sys/socket.h>",
            "system calls": "auto id = syscall(SYS_gettid);",
            "thread left alone": "thread_.detach();",
            "C output": "std::cout << x;",
        }
        for what, line in planted.items():
            with self.subTest(what):
                self.plant("muster/train/x.cc", f"\n{line}\n")
                self.assert_found("check_symbols.py", f"muster/train/x.cc:2: {what}:")

    def test_other_ways_to_the_same(self):
        planted = {
            "the system's clock": ("take({system_clock()});", "return system_clock();", "Deadline::after(system_clock(), t);"),
            "time": ("std::chrono::utc_clock::now();", "::localtime_r(&t, &parts);", "auto t = std::clock();"),
            "sleep": ("int t = timerfd_create(0, 0);", "::alarm(3);"),
            "entropy": ("std::minstd_rand generator;", "auto x = drand48();", "auto x = ::random();",
                        "::getentropy(bytes, 8);"),
            "the system's headers": ("#include <unistd.h>", "# include <netdb.h>", "#include <linux/futex.h>"),
            "files": ("std::remove(name.c_str());", "auto p = std::filesystem::absolute(path);", "fs::weakly_canonical(path);",
                      "std::filesystem::read_symlink(path, error);", "std::filesystem::status(path);",
                      "std::filesystem::current_path();", "std::filesystem::temp_directory_path();",
                      "std::filesystem::last_write_time(path);", "std::filesystem::equivalent(one, other);",
                      "std::filesystem::create_hard_link(one, other);", "std::filesystem::directory_entry entry(path);",
                      "::stat(path, &facts);", "::ftruncate(fd, 0);", "::access(path, R_OK);",
                      "auto here = getcwd(text, size);", "realpath(path, text);", "opendir(path);",
                      "std::rename(one, other);"),
            "environment": ("::clearenv();", 'std::setlocale(LC_ALL, "");'),
            "machine": ("std::thread::hardware_concurrency();", "::getpwuid(id);", "get_nprocs();"),
        }
        for what, lines in planted.items():
            for line in lines:
                with self.subTest(line):
                    self.plant("muster/train/x.cc", f"{line}\n")
                    self.assert_found("check_symbols.py", f"muster/train/x.cc:1: {what}:")

    def test_paths_without_a_file_system(self):
        self.plant("muster/train/x.cc",
                   "std::filesystem::path p = a.lexically_relative(b);\nauto s = files.status(p);\n"
                   "auto t = stat(p);\nauto m = tensor.permissions;\nauto d = statuses.absolute();\n"
                   "X(Clock& clock = system_clock());\n")
        self.assert_good("check_symbols.py")

    def test_waits_go_by_the_clock(self):
        for line in ("wake_.wait_until(lock, deadline.at());", "answer->wait_until(deadline.at());",
                     "(*answer).wait_for(1s);"):
            with self.subTest(line):
                self.plant("muster/train/x.cc", f"{line}\n")
                self.assert_found("check_symbols.py", "muster/train/x.cc:1: wait:")
        self.plant("muster/train/x.cc",
                   "clock.wait_until(lock, changed_, at);\nloop_.clock().wait_until(lock, changed_, at);\n"
                   "clock_.wait_until(lock, changed_, at);\nwork.wait_until(clock_, at);\n"
                   "auto d = wait_for(Rank{1}, deadline);\n")
        self.assert_good("check_symbols.py")

    def test_signals_to_others(self):
        self.plant("muster/train/x.cc", "::kill(pid, SIGKILL);\n")
        self.assert_found("check_symbols.py", "muster/train/x.cc:1: processes:")
        self.plant("muster/train/x.cc", "void Worker::kill() {}\nworker->kill();\nstate_->poll();\n")
        self.assert_good("check_symbols.py")

    def test_comments_and_literals_are_no_code(self):
        self.plant("muster/train/x.cc",
                   '// fork() is not called\nauto s = "std::getenv(x)"; /* assert(\n x) */\n'
                   'auto r = R"(std::cout)";\nconst char c = \'"\'; int n = 1\'000;\n')
        self.assert_good("check_symbols.py")

    def test_a_test_may(self):
        self.plant("muster/train/x_test.cc", "auto child = fork();\n")
        self.assert_good("check_symbols.py")

    def test_names_that_only_resemble(self):
        self.plant("muster/train/x.cc",
                   "auto a = stream.fork(name);\nauto b = clock.now();\nauto c = step_time(0);\n"
                   "auto d = files.open(path);\nauto e = tensor.detach();\n")
        self.assert_good("check_symbols.py")

    def test_unfinished_work(self):
        self.plant("muster/train/x_test.cc", "int x;  // TO" "DO later\n")
        self.assert_found("check_symbols.py", "muster/train/x_test.cc:1:")


class Scripts(PlantedTree):
    def check(self, name):
        done = subprocess.run([ROOT / "tools" / name, self.root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_however_the_shell_is_named(self):
        for first in ("#!/bin/bash", "#!/bin/sh", "#!/usr/bin/env bash", "#!/usr/bin/env sh", "#! /bin/sh -e",
                      "#!/usr/bin/env -S bash -e", "# shellcheck shell=bash"):
            with self.subTest(first):
                self.plant("tests/x", f"{first}\nword=$1\necho \"$word\"\n")
                self.assert_good("check_scripts.sh")
                self.plant("tests/x", f"{first}\nword=$1\necho $word\n")
                self.assert_found("check_scripts.sh", "In tests/x line 3:")

    def test_what_is_no_shell_script(self):
        self.plant("script/x", "#!/bin/sh\necho good\n")
        self.plant("tests/x.py", '#!/usr/bin/env python3\nTEXT = """\n#!/bin/sh\necho $x\n"""\n')
        self.assert_good("check_scripts.sh")

    def test_a_tree_without_any(self):
        self.plant("tests/x.py", "print()\n")
        self.assert_found("check_scripts.sh", "none found")


class Text(PlantedTree):
    def test_machine_path(self):
        self.plant("docs/x.md", "see\n/home/" "somebody/runs\n")
        self.assert_found("check_text.py", "docs/x.md:2:")

    def test_long_file(self):
        self.plant("muster/base/x.cc", "int x;\n" * 500)
        self.assert_good("check_text.py")
        self.plant("muster/base/x.cc", "int x;\n" * 501)
        self.assert_found("check_text.py", "muster/base/x.cc:501:")

    def test_changelog(self):
        one = "## [2]\n### Added\n#### Data\n- a\n### Fixed\n#### Data\n- b\n"
        self.plant("CHANGELOG.md", "# Changelog\n" + one + one.replace("2", "1").replace("- ", "- older "))
        self.assert_good("check_text.py")
        self.plant("CHANGELOG.md", "# Changelog\n" + one + "### Added\n- c\n- a\n")
        self.assert_found("check_text.py", "CHANGELOG.md:9: '### Added' is in line 3 already", "CHANGELOG.md:11: the same")
        self.plant("CHANGELOG.md", "# Changelog\n## [2]\n#### Data\n- a\n")
        self.assert_found("check_text.py", "CHANGELOG.md:3: '#### Data' stands below no heading")


class Dependencies(unittest.TestCase):
    """script/dependencies without root says what to install, and changes nothing."""

    def test_missing_package_without_root(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as packages:
            packages.write("build  no-such-package  # of this test\ntest  nor-this-one\n")
            packages.flush()
            os.chmod(packages.name, 0o644)
            command = [ROOT / "script/dependencies", "--packages", packages.name]
            if os.getuid() == 0:
                command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("apt-get install --no-install-recommends no-such-package\n", done.stderr)
        self.assertNotIn("nor-this-one", done.stderr)


if __name__ == "__main__":
    unittest.main()
