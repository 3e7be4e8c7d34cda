#include "muster/data/formats/csv/csv.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "muster/data/testing/packed.h"
#include "muster/testing/temp_folder.h"

namespace muster::data {
namespace {

using muster::testing::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Csv : public ::testing::Test {
 protected:
  Path write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  Result<CsvTable> table(const std::string& text, const CsvLayout& layout = {}) const {
    return read_csv(system_files(), write("table.csv", text), layout);
  }
  std::string refusal(const std::string& text, const CsvLayout& layout = {}) const {
    const auto read = table(text, layout);
    return read ? "it was taken" : read.error().message;
  }
  // With a table of its own for validation, so that every row of `text` is for training.
  Result<CsvSets> sets(const std::string& text, const std::string& other, CsvOptions options = {}) {
    options.path = write("table.csv", text);
    options.validation_path = write("other.csv", other);
    return create_csv_sources(system_files(), options);
  }
  std::string refused(const std::string& text, const std::string& other, CsvOptions options = {}) {
    const auto made = sets(text, other, std::move(options));
    return made ? "it was taken" : made.error().message;
  }

  static std::pair<std::vector<float>, std::int64_t> sample(const Source& source,
                                                            std::int64_t index) {
    std::vector<float> values(static_cast<std::size_t>(source.fields()[0].shape[0]));
    std::int64_t label = -1;
    const std::vector<TensorView> into{
        {DType::kF32, source.fields()[0].shape, std::as_writable_bytes(std::span(values))},
        {DType::kI64, {}, std::as_writable_bytes(std::span(&label, 1))}};
    EXPECT_TRUE(source.read(index, into));
    return {values, label};
  }

  TempFolder folder_;
};

TEST_F(Csv, CellsAreReadAsTheRfcHasThem) {
  const auto read = table("a,b , c\r\n1,\"x, \"\"y\"\"\nz\",3\r\n\r\n+2.5e1, plain ,-0\r\n");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->columns.size(), 3);
  EXPECT_EQ(read->columns[1].name, "b");
  EXPECT_EQ(read->columns[2].name, "c");
  EXPECT_THAT(read->columns[0].numbers, ElementsAre(1, 25));
  EXPECT_THAT(read->columns[1].words, ElementsAre("x, \"y\"\nz", "plain"));
  EXPECT_THAT(read->columns[1].codes, ElementsAre(0, 1));
  EXPECT_THAT(read->lines, ElementsAre(3, 5));
}

TEST_F(Csv, OtherDelimitersAndNoHeader) {
  const auto read = table("1\tx\n2\ty", {.delimiter = '\t', .header = false});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->columns[1].name, "2");
  EXPECT_THAT(read->columns[0].numbers, ElementsAre(1, 2));
  EXPECT_EQ(table("a;b\n1,5;2\n", {.delimiter = ';'})->columns[0].other, "`1,5` on line 2");
}

TEST_F(Csv, WhatIsMissingIsNeitherNumberNorWord) {
  const auto read = table("a,b\n1,x\n,NA\nNaN,?\nn/a,y\n");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->columns[0].is_numeric());
  EXPECT_EQ(read->columns[0].missing, 3);
  EXPECT_TRUE(std::isnan(read->columns[0].numbers[1]));
  const auto made = sets("w,y\nx,0\nNA,1\n?,0\n,1\nz,0\n", "w,y\nx,0\n");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->features[0].words, ElementsAre("x", "z"));
}

TEST_F(Csv, WhatMeansMissingCanBeNamed) {
  const CsvLayout layout{.missing = {"-", "unknown"}};
  EXPECT_TRUE(table("a\n1\n-\nunknown\n", layout)->columns[0].is_numeric());
  EXPECT_FALSE(table("a\n1\nNA\n", layout)->columns[0].is_numeric());
}

TEST_F(Csv, NumbersMayHaveAComma) {
  EXPECT_THAT(table("a;b\n3,7;1\n-1,5;2\n", {.delimiter = ';', .decimal = ','})->columns[0].numbers,
              ElementsAre(3.7, -1.5));
}

// 1.234 are a thousand and more there.
TEST_F(Csv, WithACommaAPointIsInNoNumber) {
  const auto columns = table("a;b\n3,7;1\n1.234;2\n", {.delimiter = ';', .decimal = ','})->columns;
  EXPECT_FALSE(columns[0].is_numeric());
}

TEST_F(Csv, WhatIsNoNumberIsToldWithItsLine) {
  for (const char* cell : {"inf", "1e999", "+-5", "0x10", "1 2"}) {
    const auto read = table(fmt::format("a\n1\n{}\n", cell));
    EXPECT_EQ(read->columns[0].other, fmt::format("`{}` on line 3", cell));
    EXPECT_EQ(read->columns[0].others, 1);
  }
}

// An index that pandas writes, a comma at the end of each line.
TEST_F(Csv, AColumnWithoutANameIsCalledByItsPlace) {
  const auto read = table(",a,\n0,5,\n1,6,\n");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->columns[0].name, "1");
  EXPECT_EQ(read->columns[2].name, "3");
  EXPECT_THAT(refusal("2,\n0,5\n"), HasSubstr("column 2 is called `2`"));
}

TEST_F(Csv, OtherEncodingsAreTold) {
  EXPECT_THAT(refusal("a,b\n1,qualit\xe9\n"), AllOf(HasSubstr("line 2"), HasSubstr("latin1")));
  EXPECT_THAT(refusal(std::string("a\0,\0b\0\n\0", 8)), HasSubstr("utf16"));
}

TEST_F(Csv, ACarriageReturnAloneEndsARow) {
  EXPECT_EQ(table("a,b\r1,2\r3,4\r")->rows(), 2);
  EXPECT_EQ(table("a,b\n1,2\r3,4\n")->rows(), 2);
}

TEST_F(Csv, ColumnsOfTooManyWordsLetThemGo) {
  std::string text = "a\n";
  for (std::int64_t i = 0; i < kMostWords; ++i) text += std::to_string(i) + "\n";
  EXPECT_TRUE(table(text)->columns[0].has_words);
  const auto more = table(text + "x\n");
  EXPECT_FALSE(more->columns[0].has_words);
  EXPECT_FALSE(more->columns[0].is_numeric());
  EXPECT_TRUE(more->columns[0].words.empty());
}

TEST_F(Csv, WhatIsNoTableIsRefusedWithItsLine) {
  EXPECT_THAT(refusal(""), HasSubstr("there are no rows"));
  EXPECT_THAT(refusal("a,b\n\n"), HasSubstr("there are no rows"));
  EXPECT_THAT(refusal("a,b\n1,2\n3\n"),
              AllOf(HasSubstr("table.csv: line 3 has 1 cell"), HasSubstr("the first row has 2")));
  EXPECT_THAT(refusal("a,b\n1,\"2\n3,4\n5,6\n"),
              AllOf(HasSubstr("line 2: it ends within"), HasSubstr("not closed")));
  EXPECT_THAT(refusal("a,b\n1,x\"y\n"), HasSubstr("line 2: a quote where none may be"));
  EXPECT_THAT(refusal("a,a\n1,2\n"),
              AllOf(HasSubstr("column 2 is called `a` by the first row, like another one"),
                    HasSubstr("data.header: false")));
  EXPECT_EQ(read_csv(system_files(), folder_ / "none", {}).error().code, ErrorCode::kNotFound);
}

TEST_F(Csv, AGzipFileIsTheSame) {
  EXPECT_THAT(table(gzip("a,b\n1,x\n2,y\n"))->columns[0].numbers, ElementsAre(1, 2));
}

TEST_F(Csv, ALayoutIsGuessed) {
  EXPECT_EQ(guess_layout("a,b;c\n1,2\n").delimiter, ',');
  EXPECT_EQ(guess_layout("\n\na;b;c\n1;2;3\n").delimiter, ';');
  EXPECT_EQ(guess_layout("a\tb\n").delimiter, '\t');
  EXPECT_EQ(guess_layout("a;b\n3,7;1\n").decimal, ',');
  EXPECT_EQ(guess_layout("a,b\n3,7\n").decimal, '.');
  EXPECT_FALSE(guess_layout("\xef\xbb\xbf"
                            "1,2\n3,4\n")
                   .header);
  EXPECT_TRUE(guess_layout("\xef\xbb\xbf"
                           "a,b\n1,2")
                  .header);
  EXPECT_TRUE(guess_layout("0,1,2,target\n5,6,7,a\n").header);
  EXPECT_TRUE(guess_layout("2019,2020,kind\nx,y,z\n").header == false);
  EXPECT_FALSE(guess_layout("1,x\n2,y\n").header);
  EXPECT_FALSE(guess_layout("x,s,x\nb,s,w\n").header) << "a name is given once";
}

TEST_F(Csv, NumbersAreStandardisedWordsBecomeOneOfMany) {
  const auto made = sets("n,w,same,y\n1,red,.1,no\n3,blue,.1,yes\n,red,.1,no\n5,,.1,yes\n",
                         "y,extra,w,same,n\nyes,1,green,1.1,3\n");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->target, "y");
  EXPECT_THAT(made->classes, ElementsAre("no", "yes"));
  const Source& training = *made->sources.training;
  const float deviation = std::sqrt(8.0f / 3);
  EXPECT_EQ(training.size(), 4);
  const auto expect = [&](std::int64_t row, float number, float blue, float red,
                          std::int64_t label) {
    const auto [values, found] = sample(training, row);
    ASSERT_EQ(values.size(), 4);
    EXPECT_FLOAT_EQ(values[0], number);
    EXPECT_EQ(values[1], blue);
    EXPECT_EQ(values[2], red);
    EXPECT_EQ(values[3], 0);  // the same everywhere
    EXPECT_EQ(found, label);
  };
  expect(0, -2 / deviation, 0, 1, 0);
  expect(1, 0, 1, 0, 1);
  expect(2, 0, 0, 1, 0);              // a number is missing
  expect(3, 2 / deviation, 0, 0, 1);  // a word is missing
  // By the training table's columns, words and moments, whatever their order.
  EXPECT_EQ(sample(*made->sources.validation, 0),
            std::pair(std::vector<float>({0, 0, 0, 1}), std::int64_t{1}));
}

// The mean of many such numbers is rounded, and so is what they differ by.
TEST_F(Csv, AColumnThatIsTheSameEverywhereIsZero) {
  std::string text = "x,y\n";
  for (int i = 0; i < 10; ++i) text += fmt::format("0.1,{}\n", i % 2);
  const auto made = sets(text, "x,y\n0.1,0\n0.2,1\n");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(sample(*made->sources.validation, 0).first[0], 0);
  EXPECT_FLOAT_EQ(sample(*made->sources.validation, 1).first[0], 0.1f);
}

// Two ways to write the same: pandas makes floats of numbers as soon as one is missing.
TEST_F(Csv, ClassesThatAreNumbersAreOneByTheirValue) {
  const auto made = sets("x,y\n1,0.0\n2,1.0\n3,10\n4,1\n", "x,y\n1,1\n1,0\n");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->classes, ElementsAre("0", "1", "10"));
  EXPECT_EQ(sample(*made->sources.validation, 0).second, 1);
}

TEST_F(Csv, AWordForNothingMayBeAClass) {
  const auto made = sets("x,y\n1,None\n2,minor\n", "x,y\n1,None\n");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->classes, ElementsAre("None", "minor"));
}

// As two files of the same rows would be.
TEST_F(Csv, WordsAreThoseOfTheTrainingRows) {
  std::string text = "w,y\n";
  for (int i = 0; i < 20; ++i) text += fmt::format("w{},{}\n", i, i % 2);
  const auto made = create_csv_sources(
      system_files(), {.path = write("one.csv", text), .validation_fraction = 0.2});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->features[0].width(), 16);
  const auto values = sample(*made->sources.validation, 0).first;
  EXPECT_THAT(values, ::testing::Each(0));
}

TEST_F(Csv, ANumberThatIsNoneAmongManyIsAMistake) {
  std::string text = "x,y\n";
  for (int i = 0; i < 40; ++i)
    text += fmt::format("{},{}\n", i == 7 ? "-" : std::to_string(i), i % 2);
  EXPECT_THAT(refused(text, text), AllOf(HasSubstr("column `x` is numbers but for `-` on line 9"),
                                         HasSubstr("data.missing")));
}

TEST_F(Csv, NumbersWithoutAMeanAreRefused) {
  EXPECT_THAT(refused("x,y\n1.7e308,0\n1.6e308,1\n", "x,y\n1,0\n"),
              AllOf(HasSubstr("column `x`"), HasSubstr("no mean")));
}

// Their squares are 0 and infinite.
TEST_F(Csv, NumbersOfAnySizeAreStandardised) {
  for (const char* size : {"1e-200", "1e-300", "1e200", "1e308"}) {
    const auto made = sets(fmt::format("x,y\n{0},0\n-{0},1\n", size), "x,y\n0,0\n");
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_FLOAT_EQ(sample(*made->sources.training, 0).first[0], 1) << size;
    EXPECT_FLOAT_EQ(sample(*made->sources.training, 1).first[0], -1) << size;
    EXPECT_EQ(sample(*made->sources.validation, 0).first[0], 0) << size;
  }
}

TEST_F(Csv, AColumnThatHardlyDiffersIsZero) {
  const auto made = sets("x,y\n0,0\n1e-310,1\n", "x,y\n0.5,0\n");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->features[0].std, 1);
  EXPECT_EQ(sample(*made->sources.training, 0).first[0], 0);
  EXPECT_EQ(sample(*made->sources.training, 1).first[0], 0);
  EXPECT_EQ(sample(*made->sources.validation, 0).first[0], 0.5f);
}

TEST_F(Csv, ANumberThatF32CannotHoldIsNamed) {
  EXPECT_THAT(refused("x,y\n1,0\n3,1\n", "x,y\n1,0\n-1e39,1\n"),
              AllOf(HasSubstr("other.csv: line 3: -1e+39 in column `x`, less 2 and divided by 1"),
                    HasSubstr("3.4e+38"), HasSubstr("data.ignore")));
  EXPECT_THAT(refused("x,y\n7,0\n7,1\n", "x,y\n1e39,0\n"),
              HasSubstr("other.csv: line 2: 1e+39 in column `x`"));
  EXPECT_THAT(refused("x,y\n0,0\n1e-200,1\n", "x,y\n1,0\n"),
              HasSubstr("other.csv: line 2: 1 in column `x`"));
  EXPECT_TRUE(sets("x,y\n7,0\n7,1\n", "x,y\n3e38,0\n"));
  EXPECT_TRUE(sets("x,y\n1e39,0\n-1e39,1\n", "x,y\n1e39,0\n"));
}

TEST_F(Csv, MomentsAreThoseOfTheTrainingRows) {
  std::string text = "x,y\n";
  for (int i = 0; i < 100; ++i) text += fmt::format("{},{}\n", i, i % 2);
  const auto made = create_csv_sources(
      system_files(), {.path = write("one.csv", text), .validation_fraction = 0.3});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->sources.training->size(), 70);
  EXPECT_EQ(made->sources.validation->size(), 30);
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < 70; ++i) {
    const float value = sample(*made->sources.training, i).first[0];
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum, 0, 1e-4);
  EXPECT_NEAR(squares / 70, 1, 1e-4);
}

TEST_F(Csv, TheTargetAndWhatToIgnoreAreNamed) {
  const auto made =
      sets("id,y,x\na1,0,1\nb2,1,2\n", "y,x\n1,1\n", {.target = "y", .ignore = {"id"}});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->features.size(), 1);
  EXPECT_EQ(made->features[0].column, "x");
  EXPECT_THAT(refused("x,y\n1,0\n", "x,y\n1,0\n", {.target = "z"}),
              HasSubstr("there is no column `z` (data.target); there are x, y"));
  EXPECT_THAT(refused("x,y\n1,0\n", "x,y\n1,0\n", {.ignore = {"z"}}),
              HasSubstr("`z` (data.ignore)"));
  EXPECT_THAT(refused("x,y\n1,0\n", "x,y\n1,0\n", {.ignore = {"x"}}),
              HasSubstr("no column to learn from"));
  EXPECT_EQ(sets("x,z,y\n1,0,a\n", "x,z\n1,0\n", {.ignore = {"y"}})->target, "z");
  EXPECT_THAT(refused("x,y\n1,0\n", "x,y\n1,0\n", {.target = "y", .ignore = {"y"}}),
              HasSubstr("is data.target and in data.ignore"));
}

TEST_F(Csv, WhatCannotBeLearntFromIsRefused) {
  std::string names = "name,y\n", numbers = "x,y\n";
  for (std::int64_t i = 0; i <= kMostCategories; ++i) names += fmt::format("n{},{}\n", i, i % 2);
  for (std::int64_t i = 0; i <= kMostWords; ++i) numbers += fmt::format("1,{}\n", i);
  EXPECT_THAT(refused(names, names),
              AllOf(HasSubstr("column `name` holds 257 words (`n0` on line 2 and others)"),
                    HasSubstr("data.ignore")));
  EXPECT_THAT(refused(numbers, numbers), HasSubstr("these are no classes"));
  EXPECT_THAT(refused("x,y\n1,a\n2,b\n3,c\n", "x,y\n1,a\n", {.classes = 2}),
              AllOf(HasSubstr("holds 3 different values"), HasSubstr("model.classes is 2")));
}

TEST_F(Csv, ARowWithoutAKnownClassIsNamed) {
  EXPECT_THAT(refused("x,y\n1,a\n2,\n", "x,y\n1,a\n"),
              AllOf(HasSubstr("table.csv: line 3: nothing in column `y`, the target"),
                    HasSubstr("the classes are a")));
  EXPECT_THAT(refused("x,y\n1,a\n2,b\n", "x,y\n1,a\n1,c\n"),
              HasSubstr("other.csv: line 3: `c` in column `y`"));
  EXPECT_THAT(refused("x,y\n1,a\n", "x,z\n1,a\n"), HasSubstr("there is no column `y`, the target"));
  EXPECT_THAT(refused("x,y\n1,a\n", "x,y\nq,a\n"),
              HasSubstr("column `x` holds `q` on line 2; in the training table it is numbers"));
}

}  // namespace
}  // namespace muster::data
