#pragma once
// The frame of muster's pages: self-contained HTML in one style, cards in a grid. Pure.

#include <string>
#include <string_view>

namespace muster::observe {

// `head` and `cards` are HTML, `title` is text.
std::string page(std::string_view title, std::string_view head, std::string_view cards);
// One that a server answers with, and that fetches itself again every other second.
std::string live_page(std::string_view title, std::string_view head, std::string_view cards);

// A card with a heading; empty where `content`, HTML, is. `kind` "wide": over the whole page.
std::string card(std::string_view title, std::string_view content, std::string_view kind = "");

}  // namespace muster::observe
