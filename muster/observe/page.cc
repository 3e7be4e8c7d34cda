#include "muster/observe/page.h"

#include <fmt/format.h>

#include "muster/observe/chart.h"
#include "muster/observe/page_style.h"

namespace muster::observe {

namespace {

// What is unfolded stays so, and the page where it was scrolled to.
constexpr std::string_view kAgain = R"js(<script>
async function again() {
  try {
    const answer = await fetch(location.href, {cache: "no-store"});
    if (answer.ok) {
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const open = [...document.querySelectorAll("details")].map(one => one.open);
      fresh.querySelectorAll("details").forEach((one, i) => one.open = open[i] ?? one.open);
      document.querySelector("main").replaceWith(fresh.querySelector("main"));
      document.title = fresh.title;
    }
  } catch (gone) {
    document.querySelector("footer").textContent = "muster page has ended; this is what it showed last.";
  }
  setTimeout(again, 2000);
}
setTimeout(again, 2000);
</script>
)js";

std::string whole_page(std::string_view title, std::string_view head, std::string_view cards,
                       std::string_view script) {
  return fmt::format(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n"
      "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style></head>\n<body><main>\n{}<div class=cards>\n{}</div>\n"
      "<footer>Written by muster.</footer>\n</main>{}</body></html>\n",
      escape_html(title), kPageStyle, head, cards, script);
}

}  // namespace

std::string page(std::string_view title, std::string_view head, std::string_view cards) {
  return whole_page(title, head, cards, "");
}

std::string live_page(std::string_view title, std::string_view head, std::string_view cards) {
  return whole_page(title, head, cards, kAgain);
}

std::string card(std::string_view title, std::string_view content, std::string_view kind) {
  if (content.empty()) return {};
  return fmt::format("<section class=\"card {}\"><h2>{}</h2>{}</section>\n", kind,
                     escape_html(title), content);
}

}  // namespace muster::observe
