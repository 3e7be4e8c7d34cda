#include "muster_mpi.h"

#include <mpi.h>
#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request fits");
_Static_assert(sizeof(MPI_Message) <= sizeof(uint64_t), "a message fits");

enum { kTag = 0 };

static MusterMpi table;
static MPI_Comm world = MPI_COMM_NULL;
static char text[MPI_MAX_ERROR_STRING];
static char library_text[MPI_MAX_LIBRARY_VERSION_STRING];

static const char* told(int code) {
  int length = 0;
  if (code == MPI_SUCCESS) return NULL;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "an unknown error of MPI";
  return text;
}

/* An own communicator: nothing that others of this process send meets muster's messages. */
static const char* start(void) {
  int provided = 0;
  int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
  if (code != MPI_SUCCESS) return told(code);
  if (provided < MPI_THREAD_FUNNELED) return "this MPI does not work in programs with threads";
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if ((code = MPI_Comm_dup(MPI_COMM_WORLD, &world)) != MPI_SUCCESS) return told(code);
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  if ((code = MPI_Comm_rank(world, &table.rank)) != MPI_SUCCESS) return told(code);
  return told(MPI_Comm_size(world, &table.size));
}

static const char* library(void) {
  int length = 0;
  if (MPI_Get_library_version(library_text, &length) != MPI_SUCCESS) return "MPI";
  library_text[strcspn(library_text, "\n\r,")] = '\0';
  for (char* at = library_text; *at != '\0'; ++at)
    if (*at == '\t') *at = ' ';
  return library_text;
}

static const char* send_bytes(const void* bytes, int count, int to, uint64_t* request) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int code = MPI_Isend(bytes, count, MPI_BYTE, to, kTag, world, &made);
  memcpy(request, &made, sizeof made);
  return told(code);
}

static const char* probe(int* found, int* from, int* count, uint64_t* message) {
  MPI_Message matched = MPI_MESSAGE_NULL;
  MPI_Status status;
  *found = 0;
  int code = MPI_Improbe(MPI_ANY_SOURCE, kTag, world, found, &matched, &status);
  if (code != MPI_SUCCESS || !*found) return told(code);
  *from = status.MPI_SOURCE;
  memcpy(message, &matched, sizeof matched);
  return told(MPI_Get_count(&status, MPI_BYTE, count));
}

static const char* receive(void* bytes, int count, uint64_t* message, uint64_t* request) {
  MPI_Request made = MPI_REQUEST_NULL;
  MPI_Message matched;
  memcpy(&matched, message, sizeof matched);
  const int code = MPI_Imrecv(bytes, count, MPI_BYTE, &matched, &made);
  memcpy(request, &made, sizeof made);
  return told(code);
}

static const char* test(uint64_t* request, int* done) {
  MPI_Request asked;
  memcpy(&asked, request, sizeof asked);
  const int code = MPI_Test(&asked, done, MPI_STATUS_IGNORE);
  memcpy(request, &asked, sizeof asked);
  return told(code);
}

static const char* finish(void) {
  const int code = MPI_Comm_free(&world);
  return told(code != MPI_SUCCESS ? code : MPI_Finalize());
}

static MusterMpi table = {MUSTER_MPI_VERSION, start, library, 0, 1,
                          send_bytes, probe, receive, test, finish};

MusterMpi* muster_mpi(void);
MusterMpi* muster_mpi(void) { return &table; }
