// The fields of data and what it is made of; see field_table.h.
#include <algorithm>
#include <iterator>
#include <utility>

#include "muster/job/bind.h"
#include "muster/job/field_table.h"

namespace muster::job {
namespace {

OnlyWith for_type(std::vector<std::string_view> types) { return {"data.type", std::move(types)}; }

constexpr auto in(auto... members) { return at(&JobSpec::data, members...); }

std::vector<Field> place_fields() {
  return {
      bind("data.type", in(&DataSpec::type),
           {.doc =
                "idx: images and labels as of MNIST; images: PNG and JPEG files in a folder for "
                "each class; csv: a table; text: one file, read as bytes (docs/data.md). Programs "
                "of your own may add others.",
            .required = true}),
      bind("data.path", in(&DataSpec::path),
           {.doc = "Folder with the idx files or of the classes' folders, or the csv or text file.",
            .pattern = ".",
            .required = true}),
      bind("data.validation_path", in(&DataSpec::validation_path),
           {.doc = "Where validation data lies, if elsewhere.",
            .default_text = "idx: data.path; others: data.validation_split of it"}),
      bind(
          "data.validation_split", in(&DataSpec::validation_split),
          {.doc = "Share that is held out for validation: the end of a text; of images and csv the "
                  "same random samples in every run.",
           .unit = kShare,
           .min = 0,
           .below = 1,
           .only_with = for_type({"images", "csv", "text"})}),
      bind("data.shuffle", in(&DataSpec::shuffle),
           {.doc = "Another order of the samples in each epoch."}),
  };
}

std::vector<Field> format_fields() {
  return {
      bind("data.train_images", in(&DataSpec::train_images),
           {.doc = "Name of the file; `.gz` is tried too.", .only_with = for_type({"idx"})}),
      bind("data.train_labels", in(&DataSpec::train_labels),
           {.doc = "Name of the file; `.gz` is tried too.", .only_with = for_type({"idx"})}),
      bind("data.validation_images", in(&DataSpec::validation_images),
           {.doc = "Name of the file; `.gz` is tried too.", .only_with = for_type({"idx"})}),
      bind("data.validation_labels", in(&DataSpec::validation_labels),
           {.doc = "Name of the file; `.gz` is tried too.", .only_with = for_type({"idx"})}),
      bind("data.image_size", in(&DataSpec::images, &ImagesSpec::size),
           {.doc = "Side of the square that pictures are brought to: the shorter side is scaled to "
                   "it and the middle kept.",
            .unit = "pixels",
            .min = 1,
            .max = 4096,
            .only_with = for_type({"images"})}),
      bind("data.image_mode", in(&DataSpec::images, &ImagesSpec::mode),
           {.doc = "Colours as three channels, or brightness as one.",
            .only_with = for_type({"images"})}),
      bind("data.target", in(&DataSpec::csv, &CsvSpec::target),
           {.doc = "Column that holds the class, in numbers or words. Without data.header columns "
                   "are called 1, 2, ….",
            .default_text = "the last column",
            .only_with = for_type({"csv"})}),
      bind("data.ignore", in(&DataSpec::csv, &CsvSpec::ignore),
           {.doc = "Columns to leave out.", .only_with = for_type({"csv"})}),
      bind("data.delimiter", in(&DataSpec::csv, &CsvSpec::delimiter),
           {.doc = "Character between cells.",
            .pattern = R"(^[\t\x20!\x23-\x7E]?$)",
            .default_text = "a tab in .tsv files, or else a comma",
            .only_with = for_type({"csv"})}),
      bind("data.header", in(&DataSpec::csv, &CsvSpec::header),
           {.doc = "Whether the first row names the columns.", .only_with = for_type({"csv"})}),
      bind("data.decimal", in(&DataSpec::csv, &CsvSpec::decimal),
           {.doc = "What stands before the fraction of a number.", .only_with = for_type({"csv"})}),
      bind("data.missing", in(&DataSpec::csv, &CsvSpec::missing),
           {.doc = "Words that mean that a value is missing, besides the empty cell.",
            .default_text = "those of pandas and ?",
            .only_with = for_type({"csv"})}),
      bind("data.context_length", in(&DataSpec::context_length),
           {.doc = "Length of one sample of text.",
            .unit = "bytes",
            .min = 1,
            .max = 1 << 20,
            .only_with = for_type({"text"})}),
  };
}

std::vector<Field> picture_fields() {
  return {
      bind("data.mean", in(&DataSpec::mean),
           {.doc = "Subtracted from pixels, of bytes in [0, 1], one value a channel; [] for none.",
            .only_with = for_type({"idx", "images"})}),
      bind("data.std", in(&DataSpec::std),
           {.doc = "Divides pixels after the mean is subtracted; as many values as data.mean.",
            .above = 0,
            .only_with = for_type({"idx", "images"})}),
      bind("data.augment.crop_padding", in(&DataSpec::augment, &AugmentSpec::crop_padding),
           {.doc = "Random crop after padding each side by this much; 0 for none.",
            .unit = "pixels",
            .min = 0,
            .max = 1024,
            .only_with = for_type({"idx", "images"})}),
      bind("data.augment.flip", in(&DataSpec::augment, &AugmentSpec::flip),
           {.doc = "Mirrors every second sample left to right.",
            .only_with = for_type({"idx", "images"})}),
  };
}

std::vector<Field> loading_fields() {
  return {
      bind("data.loader_threads", in(&DataSpec::loader_threads),
           {.doc = "Threads of a worker that read and transform samples.", .min = 1, .max = 256}),
      bind("data.prefetch_batches", in(&DataSpec::prefetch_batches),
           {.doc = "Batches kept ready ahead of the step.", .min = 1, .max = 1024}),
      bind("data.transforms", in(&DataSpec::transforms),
           {.doc = "Transforms of a program's own (docs/app.md), applied one after the other."}),
      bind("data.cache", in(&DataSpec::cache),
           {.doc = "Folder for inflated copies of gzip files, which the workers of a host share; "
                   "auto: muster in $XDG_CACHE_HOME or ~/.cache; none: each inflates for itself.",
            .only_with = for_type({"idx", "csv"})}),
  };
}

}  // namespace

std::vector<Field> data_fields() {
  std::vector<Field> fields;
  for (auto* part : {&place_fields, &format_fields, &picture_fields, &loading_fields})
    std::ranges::move(part(), std::back_inserter(fields));
  return fields;
}

}  // namespace muster::job
