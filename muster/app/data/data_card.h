#pragma once
// What the data of a run was, kept with it as data.json: a run goes on with the same data only. And
// what a model must be told to be used: which class a label is, and how the columns of a table
// become its inputs.

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/data/formats/csv/csv.h"

namespace muster::app {

struct DataCard {
  std::int64_t training = 0, validation = 0;  // samples
  std::uint64_t fingerprint = 0;              // see data::SourcePair
  std::vector<std::string> classes;           // by label; empty: their files name none
  std::string target;                         // of a table: its column
  std::vector<data::CsvFeature> features;     // of a table: in the order of the inputs
};

// {"samples": {"training": 240, "validation": 60}, "fingerprint": "…", "classes": ["no", "yes"],
//  "target": "outcome", "features": [{"column": "age", "mean": 41.5, "std": 17.2},
//                                    {"column": "city", "words": ["Bonn", "Rome"]}]}
std::string to_json(const DataCard& card);

// Writes it where there is none. kInvalid where there is one of other data.
Status keep_data_card(Files& files, const Path& path, const DataCard& card);

}  // namespace muster::app
