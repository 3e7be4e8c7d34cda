#pragma once
// What CLI11 says of a command line that does not fit, in muster's words. Pure.

#include <string>

namespace CLI {
class App;
class Error;
}  // namespace CLI

namespace muster::cli {

// `command` is the one whose words did not fit.
std::string in_words(const CLI::Error& error, const CLI::App& command);

}  // namespace muster::cli
