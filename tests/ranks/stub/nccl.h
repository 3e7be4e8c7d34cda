#pragma once
/* What muster's module for NCCL uses of it, declared as NCCL 2.18 does: as cuda_runtime_api.h. */

#include "cuda_runtime_api.h"

#define NCCL_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define NCCL_VERSION_CODE NCCL_VERSION(2, 18, 0)
#define NCCL_UNIQUE_ID_BYTES 128

typedef struct ncclComm* ncclComm_t;
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;
typedef enum { ncclSuccess = 0, ncclInvalidArgument = 4, ncclInProgress = 7 } ncclResult_t;
typedef enum { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg } ncclRedOp_t;
typedef enum {
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt64 = 4,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
} ncclDataType_t;
typedef struct {
  size_t size;
  int blocking;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER \
  { sizeof(ncclConfig_t), 1 }

const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGetVersion(int* version);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part,
                           ncclConfig_t* config);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
ncclResult_t ncclCommCount(ncclComm_t comm, int* count);
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclReduce(const void* input, void* output, size_t count, ncclDataType_t dtype,
                        ncclRedOp_t reduce, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* input, void* output, size_t count, ncclDataType_t dtype,
                           int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllReduce(const void* input, void* output, size_t count, ncclDataType_t dtype,
                           ncclRedOp_t reduce, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* input, void* output, size_t count, ncclDataType_t dtype,
                               ncclRedOp_t reduce, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void* input, void* output, size_t count, ncclDataType_t dtype,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSend(const void* memory, size_t count, ncclDataType_t dtype, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* memory, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream);
