#include "muster/cli/help_formatter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "muster/base/text_width.h"
#include "muster/cli/application.h"
#include "muster/cli/fake_machine.h"
#include "muster/cli/help_text.h"
#include "muster/job/reference.h"

namespace muster::cli {
namespace {

// Help of the program and of every command, in a terminal of as many columns.
class HelpOfAll {
 public:
  explicit HelpOfAll(int columns) {
    Context context{system_files(), system_clock(), machine_, out_, err_, {}, "muster"};
    CLI::App app("A program.", "muster");
    app.formatter(std::make_shared<HelpFormatter>(columns));
    add_commands(app, context);
    collect(app, "");
  }

  std::size_t commands() const { return commands_; }
  const std::string& text() const { return text_; }
  // Lines that are wider.
  std::vector<std::string> beyond(std::size_t width) const {
    std::vector<std::string> found;
    std::istringstream lines(text_);
    for (std::string line; std::getline(lines, line);)
      if (display_width(line) > width) found.push_back(line);
    return found;
  }

 private:
  void collect(const CLI::App& command, const std::string& before) {
    ++commands_;
    text_ += command.help(before);
    for (const CLI::App* below : commands_of(command)) collect(*below, command.get_name());
  }

  FakeMachine machine_;
  std::ostringstream out_, err_;
  std::size_t commands_ = 0;
  std::string text_;
};

TEST(HelpFormatter, KeepsHelpOfEveryCommandWithinTheTerminal) {
  for (const int columns : {80, 72, 60}) {
    const HelpOfAll help(columns);
    EXPECT_GE(help.commands(), 30u);
    EXPECT_EQ(help.beyond(static_cast<std::size_t>(columns)), std::vector<std::string>());
  }
}

TEST(HelpFormatter, IsNoWiderThanPeopleReadWell) {
  EXPECT_EQ(HelpOfAll(200).text(), HelpOfAll(80).text());
}

// Of fields, and of each by itself.
std::string help_of_job(int columns) {
  const auto width = static_cast<std::size_t>(columns);
  std::string text = wrapped_fields(job::help_all(*job::muster_fields()), width);
  for (const job::Field& field : job::muster_fields()->all())
    text += wrapped_facts(job::help_field(field), width);
  return text;
}

TEST(HelpText, KeepsHelpOfTheJobWithinTheTerminal) {
  for (const int columns : {80, 60}) {
    std::istringstream lines(help_of_job(columns));
    for (std::string line; std::getline(lines, line);) {
      const bool one_word = line.find(' ', line.find_first_not_of(' ')) == line.npos;
      EXPECT_TRUE(one_word || std::cmp_less_equal(display_width(line), columns)) << line;
    }
  }
}

TEST(HelpText, BreaksWhatIsSaidOfFieldsBesideTheirNames) {
  EXPECT_EQ(
      wrapped_fields("optimizer: How weights follow from gradients of all of them.\n"
                     "  optimizer.type                       Rule of the update, one a job. [sgd]\n"
                     "  training.gradient_accumulation_steps Micro-batches of a slice. [1]\n\n",
                     50),
      "optimizer: How weights follow from gradients of\n"
      "all of them.\n"
      "  optimizer.type         Rule of the update, one a\n"
      "                         job. [sgd]\n"
      "  training.gradient_accumulation_steps\n"
      "                         Micro-batches of a slice.\n"
      "                         [1]\n\n");
  EXPECT_EQ(wrapped_facts("training.epochs\n  Passes over the training data, each in an order "
                          "of its own.\n  expects      a whole number, at least 1 and at most "
                          "1000000\n  set by       --set training.epochs=…\n",
                          50),
            "training.epochs\n"
            "  Passes over the training data, each in an order\n"
            "  of its own.\n"
            "  expects      a whole number, at least 1 and at\n"
            "               most 1000000\n"
            "  set by       --set training.epochs=…\n");
}

TEST(HelpFormatter, BreaksDescriptionsBesideTheNames) {
  CLI::App app("What it is.", "program");
  app.formatter(std::make_shared<HelpFormatter>(40));
  app.add_flag("--one")->description("Some words that do not fit beside it");
  EXPECT_NE(app.help().find("  --one             Some words that do\n"
                            "                    not fit beside it\n"),
            std::string::npos)
      << app.help();
}

TEST(HelpFormatter, KeepsOneEmptyLineBetweenGroups) {
  CLI::App app("What it is.", "program");
  app.formatter(std::make_shared<HelpFormatter>(40));
  app.add_flag("--one")->description("The first")->group("Ones");
  app.add_flag("--two")->description("The second")->group("Twos");
  EXPECT_NE(app.help().find("The first\n\nTwos:\n"), std::string::npos) << app.help();
  EXPECT_EQ(app.help().find("\n\n\n"), std::string::npos) << app.help();
}

TEST(HelpFormatter, AnExampleThatIsTooLongGoesOnBehindABackslash) {
  CLI::App app("What it is.", "program");
  app.formatter(std::make_shared<HelpFormatter>(40));
  app.footer("Examples:\n  program words --of an --example that-is-long");
  EXPECT_NE(app.help().find("  program words --of an --example \\\n      that-is-long\n"),
            std::string::npos)
      << app.help();
}

}  // namespace
}  // namespace muster::cli
