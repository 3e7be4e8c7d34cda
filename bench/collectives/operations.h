// What the programs of this folder measure, in C so that mpi.c reads it as well: one table of
// collective operations of f32, the number that each rank puts into each block, and the one that
// has to come out of it. Whole numbers, so that sums are exact. A tensor is one block, or one for
// each rank.
#pragma once

#include <string.h>

typedef struct {
  int rank;
  int block;
  int ranks;
} Place;

typedef struct {
  const char* name;
  int in_place;           // input and output are one tensor
  int all_blocks_in;      // else one
  int all_blocks_out;     // else one
  float (*input)(Place);  // of a rank's input
  float (*expected)(Place);
} Operation;

// The places in kOperations.
enum { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kBroadcast, kOperationCount };

static inline float own_number(Place p) { return (float)(p.rank + 1); }
static inline float number_of_block(Place p) { return (float)(p.block + 1); }
static inline float sum_of_ranks(Place p) { return (float)(p.ranks * (p.ranks + 1) / 2); }
static inline float product(Place p) { return (float)((p.rank + 1) * (p.block + 1)); }
static inline float sum_of_products(Place p) { return (float)(p.rank + 1) * sum_of_ranks(p); }
static inline float sent_to_block(Place p) { return (float)(p.rank * p.ranks + p.block + 1); }
static inline float received_from_block(Place p) { return (float)(p.block * p.ranks + p.rank + 1); }
static inline float number_of_root(Place p) {
  (void)p;
  return 1.0F;
}

static const Operation kOperations[kOperationCount] = {
    {"all_reduce", 1, 1, 1, own_number, sum_of_ranks},
    {"reduce_scatter", 0, 1, 0, product, sum_of_products},
    {"all_gather", 0, 0, 1, own_number, number_of_block},
    {"all_to_all", 0, 1, 1, sent_to_block, received_from_block},
    {"broadcast", 1, 1, 1, own_number, number_of_root},  // from rank 0
};

// kOperationCount: there is none of this name.
static inline int find_operation(const char* name) {
  int which = 0;
  while (which < kOperationCount && strcmp(kOperations[which].name, name) != 0) ++which;
  return which;
}

// Elements of one block where the larger tensor has at most `bytes`: all blocks are of one size.
static inline size_t block_of(size_t bytes, int ranks) { return bytes / 4 / (size_t)ranks; }

static inline size_t input_elements(const Operation* operation, size_t block, int ranks) {
  return operation->all_blocks_in ? block * (size_t)ranks : block;
}

static inline size_t output_elements(const Operation* operation, size_t block, int ranks) {
  return operation->all_blocks_out ? block * (size_t)ranks : block;
}

static inline void fill_input(const Operation* operation, float* input, size_t block, int rank,
                              int ranks) {
  const int blocks = operation->all_blocks_in ? ranks : 1;
  for (int b = 0; b < blocks; ++b) {
    const Place place = {rank, b, ranks};
    const float number = operation->input(place);
    float* const begin = input + block * (size_t)b;
    for (size_t i = 0; i < block; ++i) begin[i] = number;
  }
}

// What came out before must not pass for what comes out now. Of an operation in place the input is.
static inline void clear_output(const Operation* operation, float* output, size_t block,
                                int ranks) {
  if (!operation->in_place)
    memset(output, 0, output_elements(operation, block, ranks) * sizeof(float));
}

static inline int is_output_right(const Operation* operation, const float* output, size_t block,
                                  int rank, int ranks) {
  const int blocks = operation->all_blocks_out ? ranks : 1;
  size_t wrong = 0;
  for (int b = 0; b < blocks; ++b) {
    const Place place = {rank, b, ranks};
    const float number = operation->expected(place);
    const float* const begin = output + block * (size_t)b;
    for (size_t i = 0; i < block; ++i) wrong += begin[i] != number;
  }
  return wrong == 0;
}
