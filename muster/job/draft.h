#pragma once
// A job while it is being put together: the values so far, where each came from, what is wrong.
// One thread.

#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/job/load.h"

namespace muster::job {

struct Draft {
  struct Assigned {
    Origin origin;
    Place place;
  };

  FieldsPtr table = muster_fields();
  std::shared_ptr<const Source> file;
  Place top;               // of the file: where it begins
  std::string home;        // the person's folder; empty: not known
  std::string started_by;  // LoadOptions::started_by
  JobSpec spec;
  std::map<std::string, Assigned, std::less<>> assigned;  // fields that somebody gave
  std::map<std::string, Origin, std::less<>> derived;
  std::map<std::string, Place, std::less<>> section_places;  // of the sections in the file
  std::set<std::string, std::less<>> faulty;                 // already reported
  std::vector<Diagnostic> errors;

  bool given(std::string_view field) const { return assigned.find(field) != assigned.end(); }
  Origin origin_of(std::string_view field) const;
  // "16 (job file line 7)", for messages that show where numbers come from.
  std::string shown(std::string_view field) const;

  // Where the file speaks of this: the nearest of its groups, or its beginning.
  Place place_near(std::string_view field) const;

  // Records how a value that nobody gave came about.
  void derive(std::string_view field, std::string how);

  // Reports at the one of `fields` that was given most strongly – a flag is what was changed about
  // a file that was right –, at the first of several, or near where the first would be; says
  // nothing where one of them is faulty already.
  void complain(std::initializer_list<std::string_view> fields, std::string message,
                std::string help = {});

  // Complains of a value that does not go with that of another field, `cause`, which `why` speaks
  // of: "has all workers compute each slice together".
  void refuse(std::string_view cause, std::string_view field, std::string_view why,
              std::string help);
  // Sets what `cause` needs, unless somebody wants something else: then likewise.
  template <class T>
  void settle(std::string_view cause, std::string_view field, T& value, const T& needed,
              std::string_view why, const std::string& help) {
    if (value == needed) return;
    if (given(field)) return refuse(cause, field, why, help);
    value = needed;
    derive(field, std::string(cause));
  }
};

// "8 or 12", the multiples of 4 beside 10; "4" where none but 0 lies below.
std::string multiples_beside(std::int64_t number, std::int64_t of);

// Fills in what follows from other values and checks what concerns several fields.
void resolve(Draft& draft, const Path& path);

// How many workers there are where workers.hosts says it. Part of resolve(), before anything
// depends on workers.count.
void count_by_hosts(Draft& draft);
// That they have room for all workers, and that nobody else starts these. Part of resolve(), once
// the workers are resolved.
void check_hosts(Draft& draft);

// Paths below `~`. Part of resolve().
void resolve_paths(Draft& draft);

// prometheus: where it listens, and that no stranger can read it. Part of resolve().
void resolve_prometheus(Draft& draft);

// mlflow: the server's address, and no account in it. Part of resolve().
void resolve_mlflow(Draft& draft);

// preemption.url, autoscaling.url: what can be asked. Part of resolve().
void check_addresses(Draft& draft);

// What own components ask of a job. Part of resolve(), before anything depends on it.
void resolve_own(Draft& draft);
// Workers that compute a sample together each have a part of what the model puts out: refuses what
// needs all of it. After resolve_strategy().
void check_cut_outputs(Draft& draft);
// The words for what a job trains and on what, own ones too.
std::string model_word(const JobSpec& spec);
std::string data_word(const JobSpec& spec);

// data: what depends on its type. Part of resolve().
void resolve_data(Draft& draft);

// model: what depends on its type. Part of resolve().
void resolve_model(Draft& draft);
// Whether it has the body of a llama.
bool is_llama(const ModelSpec& model) noexcept;

// strategy: what it asks of the membership. Part of resolve(), before the workers are checked.
void resolve_strategy(Draft& draft);

// A job with a strategy.mesh that does not say its type is hybrid. Part of resolve(), first.
void name_hybrid(Draft& draft);
// strategy.mesh of a hybrid, with the rest filled in; false where it has none that can be gone on
// with. Part of resolve_strategy().
bool resolve_mesh(Draft& draft);
// And of the other types, which say it in their words; once these are resolved.
void name_mesh(Draft& draft);
// The field that says the extent of an axis: `field` is the one of the type that has no other.
std::string_view axis_field(const Draft& draft, std::string_view field);

// strategy.placement: as many stages, and the schedule that passes them so, where nobody says
// otherwise; before these are resolved.
void derive_stages(Draft& draft);
// And strategy.blocks, where the names of blocks are known; once these are resolved.
void resolve_placement(Draft& draft);

// What strategy.type tensor asks of the model. Part of resolve_strategy().
void check_tensor(Draft& draft);

// What strategy.type context asks of the model and the data, and how its attention is computed.
// Part of resolve_strategy().
void resolve_context(Draft& draft);
void check_experts(Draft& draft);

// How many times the workers hold the model. After resolve_strategy().
std::int64_t replicas(const Draft& draft) noexcept;

// training.sync_batch_norm: who can let all slices of a step meet. Part of resolve(), once the
// strategy is.
void resolve_batch_norm(Draft& draft);

// training: lengths and the batch identity. Part of resolve().
void resolve_training(Draft& draft);

}  // namespace muster::job
