#pragma once
/* What muster needs of NCCL (2.18 or later) and of the CUDA run time, as a table of functions. A
   module is this table compiled against both of a machine; muster, which is compiled against
   neither, loads it where a job asks for it.

   Functions that return text return NULL where all went well, else what went wrong, valid until the
   same thread calls again. None of them waits for another rank. One thread at a time calls what is
   of one group; a group that was split counts with the part until poll() says that the part is
   done. */

#include <stddef.h>

/* Counts changes of the table. */
#define MUSTER_NCCL_VERSION 1
#define MUSTER_NCCL_ID_BYTES 128

/* One rank's end of a group: a communicator, and a stream of its own. */
typedef struct MusterNcclGroup MusterNcclGroup;

/* One collective. `input` and `output` are memory of the device. */
typedef struct MusterNcclCall {
  int op;       /* index in muster's Op: 0 all-reduce … 4 all-to-all, 7 barrier; no messages */
  int dtype;    /* muster's DType: 0 f16, bf16, f32, f64, i32, i64, 6 u8 */
  int reduce;   /* muster's Reduce: 0 sum, avg, min, max, 4 product */
  int root;     /* of a broadcast */
  size_t width; /* of an element, in bytes */
  size_t count; /* elements: of the buffer, or of one rank's block; of shards `begin` says it */
  const size_t* begin; /* of each rank's shard and the end of the last; NULL: blocks of one size */
  const void* input;   /* of all-reduce and broadcast: the same as output */
  void* output;
} MusterNcclCall;

enum MusterNcclMemory { kMusterNcclDevice, kMusterNcclPinned };

typedef struct MusterNccl {
  int version;                  /* MUSTER_NCCL_VERSION */
  const char* (*library)(void); /* "NCCL 2.28.9, CUDA 13.0" */
  const char* (*devices)(int* count);
  /* What a group is joined by, MUSTER_NCCL_ID_BYTES; made by one of its ranks. */
  const char* (*make_id)(void* id);
  /* Both begin; poll() says when the group can be used. Colours count from 0. */
  const char* (*join)(const void* id, int device, int rank, int size, MusterNcclGroup** group);
  const char* (*split)(MusterNcclGroup* whole, int color, int key, MusterNcclGroup** part);
  /* Begins a collective behind all that the device's default stream has been given so far. */
  const char* (*begin)(MusterNcclGroup* group, const MusterNcclCall* call);
  /* Whether what was begun last is over. */
  const char* (*poll)(MusterNcclGroup* group, int* done);
  /* Ends what is under way, on the device as well: done, for poll(), once nothing there is at the
     tensors. Nothing can be begun after it. */
  void (*abort)(MusterNcclGroup* group);
  /* Begins to end in good order: poll() says when what was sent has left. */
  const char* (*finish)(MusterNcclGroup* group);
  void (*release)(MusterNcclGroup* group); /* what is still under way is aborted */
  /* From anywhere to anywhere, behind all that the default stream has been given so far; waits. */
  const char* (*copy)(int device, void* to, const void* from, size_t bytes);
  const char* (*allocate)(int device, enum MusterNcclMemory kind, size_t bytes, void** memory);
  void (*free)(int device, enum MusterNcclMemory kind, void* memory);
} MusterNccl;

/* The one symbol of a module, and what it is. */
#define MUSTER_NCCL_SYMBOL "muster_nccl"
typedef MusterNccl* MusterNcclModule(void);
