#pragma once
/* What muster needs of MPI (MPI 3.1), as a table of functions. Each MPI has an ABI of its own: a
   module is this table compiled against one of them, and muster, which is compiled against none,
   loads the one with which its processes were started.

   One thread calls all of it, the one that called start(). Functions that return text return NULL
   where all went well, else what went wrong, valid until the next call. Nothing but start() and
   finish() waits for another process. */

#include <stdint.h>

/* Counts changes of the table. */
#define MUSTER_MPI_VERSION 1

typedef struct MusterMpi {
  int version; /* MUSTER_MPI_VERSION */
  /* Begins; once in a process. A process that no launcher of this MPI has started is alone. */
  const char* (*start)(void);
  const char* (*library)(void); /* its name and version, one line */
  int rank;                     /* in the world; both once it has begun */
  int size;
  /* Sends `count` bytes, which stay where they are until test() says that they have left. Messages
     to one process arrive in order. */
  const char* (*send)(const void* bytes, int count, int to, uint64_t* request);
  /* Whether a message has come, which nobody else gets then. */
  const char* (*probe)(int* found, int* from, int* count, uint64_t* message);
  /* Receives it into `count` bytes; test() says when it is there. */
  const char* (*receive)(void* bytes, int count, uint64_t* message, uint64_t* request);
  const char* (*test)(uint64_t* request, int* done);
  /* Ends it in good order: waits for all processes to come to this. Nothing is called after it. */
  const char* (*finish)(void);
} MusterMpi;

/* The one symbol of a module, and what it is. */
#define MUSTER_MPI_SYMBOL "muster_mpi"
typedef MusterMpi* MusterMpiModule(void);
