#include "muster/observe/page.h"

#include <fmt/format.h>

#include "muster/observe/chart.h"
#include "muster/observe/page_style.h"

namespace muster::observe {

std::string page(std::string_view title, std::string_view head, std::string_view cards) {
  return fmt::format(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n"
      "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style></head>\n<body><main>\n{}<div class=cards>\n{}</div>\n"
      "<footer>Written by muster.</footer>\n</main></body></html>\n",
      escape_html(title), kPageStyle, head, cards);
}

std::string card(std::string_view title, std::string_view content, std::string_view kind) {
  if (content.empty()) return {};
  return fmt::format("<section class=\"card {}\"><h2>{}</h2>{}</section>\n", kind,
                     escape_html(title), content);
}

}  // namespace muster::observe
