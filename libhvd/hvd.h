/* SPDX-License-Identifier: Apache-2.0
 *
 * libhvd: distributed training's collective operations, as a C library.
 *
 * Every rank of a job submits named tensors in any order; when all ranks have submitted a name,
 * the operation runs. Names pair operations across ranks; order does not.
 *
 * Threads: every function may be called from any thread at any time, but for hvd_init and
 * hvd_shutdown, which must not run at the same time as each other.
 *
 * Errors: functions that return int return HVD_OK (0) or one of the HVD_ERR_ codes; the text that
 * belongs to it is hvd_last_error() of the calling thread. An operation that fails after it was
 * submitted reports code and text at hvd_wait (text also by hvd_error). After an error found at
 * submit nothing has been touched and the name is free. After HVD_ERR_MISMATCH of an operation the
 * runtime is healthy and the name can be used again. After HVD_ERR_PEER_LOST every outstanding and
 * later operation fails with the same text until hvd_shutdown.
 *
 * Memory: tensors are contiguous; this release works on host memory. Input and output buffers
 * belong to the library from submit until the handle is done (hvd_poll true or hvd_wait returned
 * other than HVD_ERR_TIMEOUT); the shape array and the name are copied.
 */
#ifndef HVD_H
#define HVD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HVD_API __attribute__((visibility("default")))
#else
#define HVD_API
#endif

/* Status codes. */
enum {
  HVD_OK = 0,
  HVD_ERR_INVALID = 1,   /* a wrong argument; nothing was touched */
  HVD_ERR_STATE = 2,     /* not initialised */
  HVD_ERR_MISMATCH = 3,  /* ranks disagree about the operation; hvd_init: PMIx, Slurm, MPI or the
                            ranks' libraries disagree; the text says who and how */
  HVD_ERR_PEER_LOST = 4, /* a rank died or left; the text names it and its host */
  HVD_ERR_SHUT_DOWN = 5, /* the runtime was shut down while the operation was outstanding */
  HVD_ERR_TIMEOUT = 6,   /* hvd_wait: not done yet; hvd_init: a rank did not come in time */
  HVD_ERR_SYSTEM = 7,    /* the operating system, PMIx or MPI refused something */
  HVD_ERR_INTERNAL = 8   /* a bug in the library */
};

/* Element types. The numbers are Horovod's. */
typedef enum hvd_type {
  HVD_UINT8 = 0,
  HVD_INT8 = 1,
  HVD_UINT16 = 2,
  HVD_INT16 = 3,
  HVD_INT32 = 4,
  HVD_INT64 = 5,
  HVD_FLOAT16 = 6,
  HVD_FLOAT32 = 7,
  HVD_FLOAT64 = 8,
  HVD_BOOL = 9,
  HVD_BFLOAT16 = 10
} hvd_type;

/* Reductions. The numbers are Horovod's. */
typedef enum hvd_op {
  HVD_AVERAGE = 0, /* sum divided by the number of ranks; integers: truncated */
  HVD_SUM = 1
} hvd_op;

/* Where a tensor's bytes are: host memory, or GPU number i of the process (0, 1, ...). */
enum { HVD_HOST = 0 };
#define HVD_GPU(i) ((int32_t)(i) + 1)

/* A tensor. `shape` has `ndim` entries, each >= 0; a scalar has ndim 0. What is not named in an
 * initialiser is zero, and so in host memory. */
typedef struct hvd_tensor {
  void *data;           /* first element; may be NULL if there are no elements */
  const int64_t *shape; /* in elements, outermost first; may be NULL if ndim is 0 */
  int32_t ndim;         /* 0 .. HVD_MAX_DIMS */
  int32_t type;         /* an hvd_type */
  int32_t device;       /* HVD_HOST or HVD_GPU(i); GPUs: HVD_ERR_INVALID in this release */
} hvd_tensor;

enum { HVD_MAX_DIMS = 16 };

/* An operation in flight; 0 is never a handle. */
typedef int64_t hvd_handle;

/* Version of the library, "0.1.0". Never fails. */
HVD_API const char *hvd_version(void);

/* Joins the job: finds the other ranks (PMIx: srun --horovod, or Open MPI's mpirun; with no
 * launcher a job of one rank, which is said once on stderr) and connects to them. Collective: ranks
 * have HOROVOD_START_TIMEOUT (30 s) to come, and as long again to connect when all have come; then
 * HVD_ERR_TIMEOUT names those that did not. MPI's own start, where it is needed, has no limit.
 * Settings are read from HOROVOD_* here. Idempotent while initialised. After hvd_shutdown it
 * may be called again, any number of times; it then waits until all ranks have shut down.
 * A failure before the ranks have met (a bad setting) can be tried again, a later one cannot.
 * MPI: if the job has several nodes MPI is initialised here, unless the program has done so. */
HVD_API int hvd_init(void);

/* Leaves the job: outstanding operations fail with HVD_ERR_SHUT_DOWN, later ones with
 * HVD_ERR_STATE; operations of other ranks that need this one fail with "... has shut down".
 * Waits for operations that all ranks have submitted and that run already, and for rank 0's answer;
 * not for other ranks to shut down. After 30 s without it HVD_ERR_TIMEOUT, and this rank cannot be
 * initialised again. No memory of the program is touched afterwards. HVD_OK also if not
 * initialised. */
HVD_API int hvd_shutdown(void);

/* 1 between a successful hvd_init and hvd_shutdown, else 0. */
HVD_API int hvd_is_initialized(void);

/* Who am I; -1 (and HVD_ERR_STATE's text) if not initialised.
 * cross: among the nodes that have this local rank, in node order. */
HVD_API int hvd_rank(void);
HVD_API int hvd_size(void);
HVD_API int hvd_local_rank(void);
HVD_API int hvd_local_size(void);
HVD_API int hvd_cross_rank(void);
HVD_API int hvd_cross_size(void);
/* 1 if all nodes have the same number of ranks, 0 if not. */
HVD_API int hvd_is_homogeneous(void);

/* Reduces `input` over all ranks into `output` (same shape and type; may be the same memory, must
 * not overlap otherwise): output = postscale * op over ranks (prescale * input).
 * [name] pairs the operation across ranks; NULL: a name from a counter of such calls.
 * [op] an hvd_op. [type] float32, float64, int32, int64. Scale factors must be the same on all
 * ranks; integers are scaled in double precision and truncated.
 * [handle] is set on success. All ranks get bitwise the same result.
 * HVD_ERR_INVALID also if an operation of this name is in flight. */
HVD_API int hvd_allreduce_async(const char *name, const hvd_tensor *input, void *output, int op,
                                double prescale, double postscale, hvd_handle *handle);

/* Copies [tensor] of rank [root] to all ranks, in place. [tensor] has the same shape and type
 * everywhere; its content on other ranks is overwritten. */
HVD_API int hvd_broadcast_async(const char *name, const hvd_tensor *tensor, int root,
                                hvd_handle *handle);

/* Done when every rank has submitted its next barrier; other operations may be outstanding. */
HVD_API int hvd_barrier_async(hvd_handle *handle);

/* The same, waiting: submit, hvd_wait without limit, code of the operation. */
HVD_API int hvd_allreduce(const char *name, const hvd_tensor *input, void *output, int op,
                          double prescale, double postscale);
HVD_API int hvd_broadcast(const char *name, const hvd_tensor *tensor, int root);
HVD_API int hvd_barrier(void);

/* 1 if the operation is done (well or not), 0 if not, -1 if there is no such handle. */
HVD_API int hvd_poll(hvd_handle handle);

/* Waits until the operation is done and releases the handle; the result is its code, the text
 * hvd_last_error(). [timeout_ms] < 0: without limit; else at most so long, then HVD_ERR_TIMEOUT
 * and the handle stays valid. The thread sleeps; it holds no core while nothing moves. */
HVD_API int hvd_wait(hvd_handle handle, int64_t timeout_ms);

/* The text of a failed operation ("" while it is not done or if it went well; NULL if there is no
 * such handle). Belongs to the handle: valid until hvd_wait releases it. */
HVD_API const char *hvd_error(hvd_handle handle);

/* The text of the last error of a call in this thread; valid until its next call. Never NULL. */
HVD_API const char *hvd_last_error(void);

#ifdef __cplusplus
}
#endif

#endif /* HVD_H */
