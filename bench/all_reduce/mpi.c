// MPI's side of compare.py: the same lines as muster_bench_all_reduce.
// Usage: mpirun -np RANKS mpi BYTES:REPETITIONS…

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char** words) {
  int rank, size;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int w = 1; w < count; ++w) {
    char* rest;
    const long bytes = strtol(words[w], &rest, 10);
    const int repetitions = atoi(rest + 1);
    const int elements = (int)(bytes / 4);
    float* values = malloc(bytes);
    if (rank == 0) printf("%ld", bytes);
    for (int i = 0; i < repetitions + 3; ++i) {
      for (int e = 0; e < elements; ++e) values[e] = (float)(rank + 1);
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      MPI_Allreduce(MPI_IN_PLACE, values, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      const double took = MPI_Wtime() - start;
      for (int e = 0; e < elements; ++e)
        if (values[e] != (float)(size * (size + 1) / 2)) MPI_Abort(MPI_COMM_WORLD, 2);
      if (rank == 0 && i >= 3) printf(" %.2f", took * 1e6);
    }
    if (rank == 0) printf("\n");
    free(values);
  }
  MPI_Finalize();
  return 0;
}
