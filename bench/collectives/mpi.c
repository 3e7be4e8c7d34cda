// MPI's side of compare.py: the same lines as muster_bench_collectives.
// Usage: mpirun -np RANKS mpi OPERATION BYTES:REPETITIONS…

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "operations.h"

typedef struct {
  float* input;
  float* output;  // the same where the operation is in place
  int block;
  int ranks;
} Tensors;

static void all_reduce(Tensors t) {
  MPI_Allreduce(MPI_IN_PLACE, t.output, t.block * t.ranks, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce_scatter(Tensors t) {
  MPI_Reduce_scatter_block(t.input, t.output, t.block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void all_gather(Tensors t) {
  MPI_Allgather(t.input, t.block, MPI_FLOAT, t.output, t.block, MPI_FLOAT, MPI_COMM_WORLD);
}

static void all_to_all(Tensors t) {
  MPI_Alltoall(t.input, t.block, MPI_FLOAT, t.output, t.block, MPI_FLOAT, MPI_COMM_WORLD);
}

static void broadcast(Tensors t) {
  MPI_Bcast(t.output, t.block * t.ranks, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void (*const kCalls[kOperationCount])(Tensors) = {
    [kAllReduce] = all_reduce, [kReduceScatter] = reduce_scatter, [kAllGather] = all_gather,
    [kAllToAll] = all_to_all,  [kBroadcast] = broadcast,
};

// Ends all where the result is wrong. Microseconds.
static double measure_once(int which, Tensors t, int rank) {
  const Operation* operation = &kOperations[which];
  fill_input(operation, t.input, t.block, rank, t.ranks);
  clear_output(operation, t.output, t.block, t.ranks);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  kCalls[which](t);
  const double took = MPI_Wtime() - start;
  if (!is_output_right(operation, t.output, t.block, rank, t.ranks)) MPI_Abort(MPI_COMM_WORLD, 2);
  return took * 1e6;
}

static void measure(int which, long bytes, int repetitions, int rank, int ranks) {
  const Operation* operation = &kOperations[which];
  Tensors t = {NULL, NULL, (int)block_of(bytes, ranks), ranks};
  t.input = malloc(input_elements(operation, t.block, ranks) * sizeof(float));
  t.output = operation->in_place
                 ? t.input
                 : malloc(output_elements(operation, t.block, ranks) * sizeof(float));
  double* times = malloc(sizeof(double) * (repetitions + 3));
  for (int i = 0; i < repetitions + 3; ++i) times[i] = measure_once(which, t, rank);
  MPI_Reduce(rank == 0 ? MPI_IN_PLACE : times, times, repetitions + 3, MPI_DOUBLE, MPI_MAX, 0,
             MPI_COMM_WORLD);
  if (rank == 0) printf("%ld", bytes);
  for (int i = 3; rank == 0 && i < repetitions + 3; ++i)  // the first three warmed up
    printf(" %.2f", times[i]);
  if (rank == 0) printf("\n");
  free(times);
  if (!operation->in_place) free(t.output);
  free(t.input);
}

int main(int count, char** words) {
  int rank, ranks;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int which = count > 1 ? find_operation(words[1]) : kOperationCount;
  if (which == kOperationCount) MPI_Abort(MPI_COMM_WORLD, 64);
  for (int w = 2; w < count; ++w) {
    char* rest;
    const long bytes = strtol(words[w], &rest, 10);
    measure(which, bytes, atoi(rest + 1), rank, ranks);
  }
  MPI_Finalize();
  return 0;
}
