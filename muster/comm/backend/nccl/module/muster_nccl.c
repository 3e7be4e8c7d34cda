#include "muster_nccl.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 0), "ncclCommSplit came with NCCL 2.18");
_Static_assert(sizeof(ncclUniqueId) == MUSTER_NCCL_ID_BYTES, "an id fits");

struct MusterNcclGroup {
  ncclComm_t comm;        /* of a part: written by a thread of NCCL's once it has split off */
  MusterNcclGroup* whole; /* of a part, until it has split off */
  int device;
  int size;
  int rank;
  cudaStream_t stream;
  cudaEvent_t before; /* on the default stream */
  cudaEvent_t after;  /* on `stream`: the end of what was begun last */
  int is_marked;      /* `after` is */
  int is_finishing;
  int is_finished; /* nothing is left that could be aborted */
  void* word;      /* of the device: what a barrier sums */
};

static _Thread_local char text[512];

static const char* told(ncclResult_t code, ncclComm_t comm) {
  const char* more = NULL;
  if (code == ncclSuccess || code == ncclInProgress) return NULL;
  more = ncclGetLastError(comm);
  snprintf(text, sizeof text, "%s%s%s", ncclGetErrorString(code), more && *more ? ": " : "",
           more ? more : "");
  return text;
}

static const char* told_by_cuda(cudaError_t code) {
  return code == cudaSuccess ? NULL : cudaGetErrorString(code);
}

static const char* library(void) {
  static char name[64];
  int nccl = 0;
  int cuda = 0;
  if (ncclGetVersion(&nccl) != ncclSuccess || cudaRuntimeGetVersion(&cuda) != cudaSuccess)
    return "NCCL";
  snprintf(name, sizeof name, "NCCL %d.%d.%d, CUDA %d.%d", nccl / 10000, nccl / 100 % 100,
           nccl % 100, cuda / 1000, cuda % 1000 / 10);
  return name;
}

static const char* devices(int* count) {
  *count = 0;
  return told_by_cuda(cudaGetDeviceCount(count));
}

static const char* make_id(void* id) {
  ncclUniqueId made;
  const ncclResult_t code = ncclGetUniqueId(&made);
  memcpy(id, &made, sizeof made);
  return told(code, NULL);
}

/* ---- groups */

/* A thread of NCCL's still writes to a part that it has not split off yet: that stays. */
static void release(MusterNcclGroup* group) {
  if (cudaSetDevice(group->device) != cudaSuccess) return;
  if (group->comm != NULL && group->is_finished)
    ncclCommDestroy(group->comm);
  else if (group->comm != NULL)
    ncclCommAbort(group->comm);
  if (group->before != NULL) cudaEventDestroy(group->before);
  if (group->after != NULL) cudaEventDestroy(group->after);
  if (group->stream != NULL) cudaStreamDestroy(group->stream);
  if (group->word != NULL) cudaFree(group->word);
  if (group->whole == NULL) free(group);
}

static cudaError_t open_stream(MusterNcclGroup* group) {
  cudaError_t code = cudaSetDevice(group->device);
  if (code == cudaSuccess) code = cudaStreamCreateWithFlags(&group->stream, cudaStreamNonBlocking);
  if (code == cudaSuccess) code = cudaEventCreateWithFlags(&group->before, cudaEventDisableTiming);
  if (code == cudaSuccess) code = cudaEventCreateWithFlags(&group->after, cudaEventDisableTiming);
  if (code == cudaSuccess) code = cudaMalloc(&group->word, sizeof(int));
  if (code == cudaSuccess) code = cudaMemset(group->word, 0, sizeof(int));
  return code;
}

static const char* open_group(int device, MusterNcclGroup** group) {
  MusterNcclGroup* const made = calloc(1, sizeof *made);
  cudaError_t code = cudaErrorMemoryAllocation;
  *group = NULL;
  if (made == NULL) return told_by_cuda(code);
  made->device = device;
  code = open_stream(made);
  if (code != cudaSuccess) {
    release(made);
    return told_by_cuda(code);
  }
  *group = made;
  return NULL;
}

/* Of a communicator that is not there yet nothing can be ended. */
static const char* begun(ncclResult_t code, MusterNcclGroup** group, ncclComm_t comm) {
  const char* const what = told(code, comm);
  if (what == NULL) return NULL;
  (*group)->whole = NULL;
  release(*group);
  *group = NULL;
  return what;
}

static const char* join(const void* id, int device, int rank, int size, MusterNcclGroup** group) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId met;
  const char* const what = open_group(device, group);
  if (what != NULL) return what;
  memcpy(&met, id, sizeof met);
  config.blocking = 0;
  (*group)->size = size;
  (*group)->rank = rank;
  return begun(ncclCommInitRankConfig(&(*group)->comm, size, met, rank, &config), group, NULL);
}

static const char* split(MusterNcclGroup* whole, int color, int key, MusterNcclGroup** part) {
  const char* const what = open_group(whole->device, part);
  if (what != NULL) return what;
  (*part)->whole = whole;
  return begun(ncclCommSplit(whole->comm, color, key, &(*part)->comm, NULL), part, whole->comm);
}

/* Whether NCCL's own threads have done with what it was given last. */
static ncclResult_t settle(ncclComm_t comm, int* yes) {
  ncclResult_t state = ncclInProgress;
  const ncclResult_t code = ncclCommGetAsyncError(comm, &state);
  *yes = state == ncclSuccess;
  return code != ncclSuccess ? code : state;
}

static const char* settle_split(MusterNcclGroup* part, int* yes) {
  const char* what = told(settle(part->whole->comm, yes), part->whole->comm);
  if (what != NULL || !*yes) return what;
  *yes = __atomic_load_n(&part->comm, __ATOMIC_ACQUIRE) != NULL;
  if (!*yes) return NULL;
  what = told(settle(part->comm, yes), part->comm);
  if (what == NULL && *yes) what = told(ncclCommCount(part->comm, &part->size), part->comm);
  if (what == NULL && *yes) what = told(ncclCommUserRank(part->comm, &part->rank), part->comm);
  if (what == NULL && *yes) part->whole = NULL;
  return what;
}

/* The end of what was begun is on the stream only once NCCL has put it there. */
static const char* poll(MusterNcclGroup* group, int* done) {
  const char* what = told_by_cuda(cudaSetDevice(group->device));
  cudaError_t reached = cudaSuccess;
  int yes = 1;
  *done = 0;
  if (what == NULL && group->whole != NULL)
    what = settle_split(group, &yes);
  else if (what == NULL && group->comm != NULL)
    what = told(settle(group->comm, &yes), group->comm);
  if (what != NULL || !yes) return what;
  if (!group->is_marked) {
    what = told_by_cuda(cudaEventRecord(group->after, group->stream));
    group->is_marked = 1;
  }
  if (what != NULL) return what;
  reached = cudaEventQuery(group->after);
  *done = reached == cudaSuccess;
  group->is_finished = *done && group->is_finishing;
  return reached == cudaErrorNotReady ? NULL : told_by_cuda(reached);
}

static void abort_group(MusterNcclGroup* group) {
  if (cudaSetDevice(group->device) != cudaSuccess) return;
  if (group->comm != NULL) ncclCommAbort(group->comm);
  group->comm = NULL;
  group->is_marked = 0;
}

static const char* finish(MusterNcclGroup* group) {
  const char* const what = told_by_cuda(cudaSetDevice(group->device));
  group->is_finishing = 1;
  return what != NULL ? what : told(ncclCommFinalize(group->comm), group->comm);
}

/* ---- collectives */

static const ncclDataType_t dtypes[] = {ncclFloat16, ncclBfloat16, ncclFloat32, ncclFloat64,
                                        ncclInt32,   ncclInt64,    ncclUint8};
static const ncclRedOp_t reduces[] = {ncclSum, ncclAvg, ncclMin, ncclMax, ncclProd};

enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, ALL_TO_ALL, BARRIER = 7 };

/* The first code that is not success counts: in progress is none that ends a loop. */
static int is_well(ncclResult_t code) { return code == ncclSuccess || code == ncclInProgress; }

static ncclResult_t scatter_shards(MusterNcclGroup* group, const MusterNcclCall* call) {
  ncclResult_t code = ncclSuccess;
  for (int rank = 0; rank < group->size && is_well(code); ++rank) {
    const size_t begin = call->begin[rank];
    code = ncclReduce((const char*)call->input + begin * call->width, call->output,
                      call->begin[rank + 1] - begin, dtypes[call->dtype], reduces[call->reduce],
                      rank, group->comm, group->stream);
  }
  return code;
}

static ncclResult_t gather_shards(MusterNcclGroup* group, const MusterNcclCall* call) {
  ncclResult_t code = ncclSuccess;
  for (int rank = 0; rank < group->size && is_well(code); ++rank) {
    const size_t begin = call->begin[rank];
    code = ncclBroadcast(call->input, (char*)call->output + begin * call->width,
                         call->begin[rank + 1] - begin, dtypes[call->dtype], rank, group->comm,
                         group->stream);
  }
  return code;
}

static ncclResult_t exchange(MusterNcclGroup* group, const MusterNcclCall* call) {
  const size_t block = call->count * call->width;
  ncclResult_t code = ncclSuccess;
  for (int rank = 0; rank < group->size && is_well(code); ++rank) {
    const size_t at = (size_t)rank * block;
    code =
        ncclSend((const char*)call->input + at, block, ncclUint8, rank, group->comm, group->stream);
    if (is_well(code))
      code = ncclRecv((char*)call->output + at, block, ncclUint8, rank, group->comm, group->stream);
  }
  return code;
}

static ncclResult_t give(MusterNcclGroup* group, const MusterNcclCall* call) {
  const ncclDataType_t dtype = dtypes[call->dtype];
  const ncclRedOp_t reduce = reduces[call->reduce];
  switch (call->op) {
    case ALL_REDUCE:
      return ncclAllReduce(call->input, call->output, call->count, dtype, reduce, group->comm,
                           group->stream);
    case REDUCE_SCATTER:
      if (call->begin != NULL) return scatter_shards(group, call);
      return ncclReduceScatter(call->input, call->output, call->count, dtype, reduce, group->comm,
                               group->stream);
    case ALL_GATHER:
      if (call->begin != NULL) return gather_shards(group, call);
      return ncclAllGather(call->input, call->output, call->count, dtype, group->comm,
                           group->stream);
    case BROADCAST:
      return ncclBroadcast(call->input, call->output, call->count, dtype, call->root, group->comm,
                           group->stream);
    case ALL_TO_ALL:
      return exchange(group, call);
    case BARRIER:
      return ncclAllReduce(group->word, group->word, 1, ncclInt32, ncclMax, group->comm,
                           group->stream);
    default:
      return ncclInvalidArgument;
  }
}

static const char* begin(MusterNcclGroup* group, const MusterNcclCall* call) {
  ncclResult_t code = ncclSuccess;
  ncclResult_t ended = ncclSuccess;
  cudaError_t ready = cudaSetDevice(group->device);
  if (ready == cudaSuccess) ready = cudaEventRecord(group->before, cudaStreamLegacy);
  if (ready == cudaSuccess) ready = cudaStreamWaitEvent(group->stream, group->before, 0);
  if (ready != cudaSuccess) return told_by_cuda(ready);
  if ((code = ncclGroupStart()) != ncclSuccess) return told(code, group->comm);
  group->is_marked = 0;
  code = give(group, call);
  ended = ncclGroupEnd();
  return told(is_well(code) ? ended : code, group->comm);
}

/* ---- memory */

/* The thread's own stream waits for the default one, and for no communicator's. */
static const char* copy(int device, void* to, const void* from, size_t bytes) {
  cudaError_t code = cudaSetDevice(device);
  if (code == cudaSuccess)
    code = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cudaStreamPerThread);
  if (code == cudaSuccess) code = cudaStreamSynchronize(cudaStreamPerThread);
  return told_by_cuda(code);
}

static const char* allocate(int device, enum MusterNcclMemory kind, size_t bytes, void** memory) {
  cudaError_t code = cudaSetDevice(device);
  if (code != cudaSuccess) return told_by_cuda(code);
  code = kind == kMusterNcclDevice ? cudaMalloc(memory, bytes)
                                    : cudaHostAlloc(memory, bytes, cudaHostAllocPortable);
  return told_by_cuda(code);
}

static void free_memory(int device, enum MusterNcclMemory kind, void* memory) {
  if (cudaSetDevice(device) != cudaSuccess) return;
  if (kind == kMusterNcclDevice)
    cudaFree(memory);
  else
    cudaFreeHost(memory);
}

static MusterNccl table = {
    MUSTER_NCCL_VERSION, library, devices, make_id, join,     split,      begin, poll,
    abort_group,         finish,  release, copy,    allocate, free_memory};

MusterNccl* muster_nccl(void);
MusterNccl* muster_nccl(void) { return &table; }
