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
  HVD_ERR_INTERNAL = 8,  /* a bug in the library */
  HVD_ERR_STALLED = 9    /* an operation was not submitted by all ranks within
                            HOROVOD_STALL_SHUTDOWN_TIME_SECONDS; the text says by whom */
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
  HVD_AVERAGE = 0, /* sum divided by the number of members; integers: truncated; not of bool */
  HVD_SUM = 1,     /* integers wrap around; bool: or */
  HVD_ADASUM = 2,  /* allreduce of floating types only: arXiv:2006.02924 */
  HVD_MIN = 3,     /* a NaN in any input gives NaN; bool: and */
  HVD_MAX = 4,     /* the same; bool: or */
  HVD_PRODUCT = 5  /* integers wrap around; bool: and */
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
 * HVD_ERR_STATE; operations of other ranks fail with "... has shut down", those of process sets
 * without this rank too, but for those that all members have submitted.
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

/* Process sets. A set is some of the job's ranks; its id is the same on all ranks and is not used
 * again until hvd_init. HVD_GLOBAL, all ranks, is always there. Operations of different sets do not
 * wait for each other's members. */
enum { HVD_GLOBAL = 0 };

/* Makes a process set of [count] distinct [ranks], in any order. Collective: all ranks of the job
 * call it, with the same ranks; waits for them. [id] is set on success (and belongs to the library
 * until the handle is done). HVD_ERR_MISMATCH also if there is a set of these ranks. */
HVD_API int hvd_add_process_set(const int32_t *ranks, int32_t count, int32_t *id);
HVD_API int hvd_add_process_set_async(const int32_t *ranks, int32_t count, int32_t *id,
                                      hvd_handle *handle);
/* Removes a set; its outstanding operations fail with HVD_ERR_INVALID. Collective like adding. */
HVD_API int hvd_remove_process_set(int32_t id);
HVD_API int hvd_remove_process_set_async(int32_t id, hvd_handle *handle);
/* The ids of all sets, ascending, as far as [capacity] goes; returns how many there are, or -1 if
 * not initialised. [ids] may be NULL if [capacity] is 0. */
HVD_API int hvd_process_sets(int32_t *ids, int32_t capacity);
/* The members of a set, ascending, as far as [capacity] goes; returns how many there are, or -1 if
 * there is no such set. */
HVD_API int hvd_process_set_ranks(int32_t id, int32_t *ranks, int32_t capacity);
/* This rank's place among the members, from 0; -1 if it is none or there is no such set (the text
 * tells which). */
HVD_API int hvd_process_set_rank(int32_t id);
/* Number of members; -1 if there is no such set. */
HVD_API int hvd_process_set_size(int32_t id);

/* Operations. What all of them share:
 * [name] pairs the operation across the members of [process_set]; NULL: a name from a counter of
 * such calls per set and operation. HVD_ERR_INVALID at submit if an operation of this name is in
 * flight, if there is no such set or this rank is no member of it, or if this rank has joined.
 * [handle] is set on success.
 * A group is all or nothing: no member runs before all ranks have submitted the group, under one
 * name and one handle, which has the first error of any member. Tensors of a group may have
 * different types. [count] is at least 1; about 4,000 tensors are the most. */

/* Reduces [input] over the members into [output] (same shape and type; may be the same memory,
 * must not overlap otherwise): output = postscale * op over members (prescale * input).
 * [op] an hvd_op. Scale factors must be the same on all ranks; integers are scaled in double
 * precision and truncated; bool is not scaled. All members get bitwise the same result. */
HVD_API int hvd_allreduce_async(const char *name, const hvd_tensor *input, void *output, int op,
                                double prescale, double postscale, int32_t process_set,
                                hvd_handle *handle);
HVD_API int hvd_grouped_allreduce_async(const char *name, int32_t count, const hvd_tensor *inputs,
                                        void *const *outputs, int op, double prescale,
                                        double postscale, int32_t process_set, hvd_handle *handle);

/* Concatenates the members' inputs along the first dimension, in the order of ranks. Inputs have
 * one dimension or more and agree in all but the first. The result belongs to the handle:
 * hvd_result. */
HVD_API int hvd_allgather_async(const char *name, const hvd_tensor *input, int32_t process_set,
                                hvd_handle *handle);
HVD_API int hvd_grouped_allgather_async(const char *name, int32_t count, const hvd_tensor *inputs,
                                        int32_t process_set, hvd_handle *handle);

/* Copies [input] of rank [root] (of the job, and a member) to [output] of all members, which has
 * the same shape and type; in place if it is input's data. What input's data is on other ranks does
 * not matter. */
HVD_API int hvd_broadcast_async(const char *name, const hvd_tensor *input, void *output, int root,
                                int32_t process_set, hvd_handle *handle);

/* Sends rows of [input] to each member, and concatenates what comes in the order of ranks.
 * [splits] rows for each member, in the order of ranks, adding up to the rows there are; NULL: the
 * same number for each. [received] (one entry for each member; may be NULL) is set to the number of
 * rows that came from each, and belongs to the library until the handle is done. Inputs have one
 * dimension or more and agree in all but the first. The result belongs to the handle: hvd_result.
 */
HVD_API int hvd_alltoall_async(const char *name, const hvd_tensor *input, const int64_t *splits,
                               int64_t *received, int32_t process_set, hvd_handle *handle);

/* Reduces as hvd_allreduce does and gives each member its share of the rows: the first
 * rows % members get one more. [output] has room for hvd_reducescatter_rows() rows; it may be
 * input's data, and must not overlap otherwise. Not with HVD_ADASUM. */
HVD_API int hvd_reducescatter_async(const char *name, const hvd_tensor *input, void *output, int op,
                                    double prescale, double postscale, int32_t process_set,
                                    hvd_handle *handle);
HVD_API int hvd_grouped_reducescatter_async(const char *name, int32_t count,
                                            const hvd_tensor *inputs, void *const *outputs, int op,
                                            double prescale, double postscale, int32_t process_set,
                                            hvd_handle *handle);
/* Rows of this rank's share of [rows]; -1 if it is no member. */
HVD_API int64_t hvd_reducescatter_rows(int64_t rows, int32_t process_set);

/* Done when every member has submitted its next barrier; other operations may be outstanding. */
HVD_API int hvd_barrier_async(int32_t process_set, hvd_handle *handle);

/* Done when every rank has joined. Until then this rank can submit nothing, and counts as having
 * submitted zeros to every allreduce of the global set (averages still divide by all ranks) and
 * every barrier; other operations that need it fail. [device] is not used with host memory; any
 * number will do. [last] (may be NULL) is set to the rank that was the last to join, and belongs to
 * the library until the handle is done. */
HVD_API int hvd_join_async(int32_t device, int32_t *last, hvd_handle *handle);

/* The same, waiting: submit, hvd_wait without limit, code of the operation. Those with a [result]
 * set it to the finished handle, to be released, on success. */
HVD_API int hvd_allreduce(const char *name, const hvd_tensor *input, void *output, int op,
                          double prescale, double postscale, int32_t process_set);
HVD_API int hvd_grouped_allreduce(const char *name, int32_t count, const hvd_tensor *inputs,
                                  void *const *outputs, int op, double prescale, double postscale,
                                  int32_t process_set);
HVD_API int hvd_allgather(const char *name, const hvd_tensor *input, int32_t process_set,
                          hvd_handle *result);
HVD_API int hvd_grouped_allgather(const char *name, int32_t count, const hvd_tensor *inputs,
                                  int32_t process_set, hvd_handle *result);
HVD_API int hvd_broadcast(const char *name, const hvd_tensor *input, void *output, int root,
                          int32_t process_set);
HVD_API int hvd_alltoall(const char *name, const hvd_tensor *input, const int64_t *splits,
                         int64_t *received, int32_t process_set, hvd_handle *result);
HVD_API int hvd_reducescatter(const char *name, const hvd_tensor *input, void *output, int op,
                              double prescale, double postscale, int32_t process_set);
HVD_API int hvd_grouped_reducescatter(const char *name, int32_t count, const hvd_tensor *inputs,
                                      void *const *outputs, int op, double prescale,
                                      double postscale, int32_t process_set);
HVD_API int hvd_barrier(int32_t process_set);
HVD_API int hvd_join(int32_t device, int32_t *last);

/* Is it time to save what has been done, and end? [stop] is set to 1 or 0, the same on all ranks:
 * 1 once any rank has got SIGUSR1 or SIGTERM, by which Slurm announces a time limit (--signal), a
 * requeue, preemption and scancel, or once the job ends within HOROVOD_STOP_MARGIN (60 s):
 * SLURM_JOB_END_TIME, or what squeue says. Collective: all ranks call it equally often, as once a
 * step; it costs a small allreduce. From a rank's first call on these signals do not end the
 * process. A handler that the program has is called, too; one that it installs later replaces the
 * library's. [stop] belongs to the library until the handle is done. */
HVD_API int hvd_should_stop_async(int32_t *stop, hvd_handle *handle);
HVD_API int hvd_should_stop(int32_t *stop);

/* 1 if the operation is done (well or not), 0 if not, -1 if there is no such handle. */
HVD_API int hvd_poll(hvd_handle handle);

/* Waits until the operation is done; the result is its code, the text hvd_last_error().
 * Releases the handle, unless the operation went well and has a result (allgather, alltoall): then
 * it is hvd_release's. [timeout_ms] < 0: without limit; else at most so long, then HVD_ERR_TIMEOUT
 * and the handle stays valid. The thread sleeps; it holds no core while nothing moves. */
HVD_API int hvd_wait(hvd_handle handle, int64_t timeout_ms);

/* The result of a finished allgather or alltoall (of a group: of its tensor [index], else 0).
 * [tensor]'s data and shape belong to the handle: valid until hvd_release, hvd_shutdown or not;
 * data is aligned to 64 bytes and may be written to. HVD_ERR_STATE if it is not done. */
HVD_API int hvd_result(hvd_handle handle, int32_t index, hvd_tensor *tensor);

/* Releases a finished handle and what belongs to it. HVD_ERR_STATE if it is not done. */
HVD_API int hvd_release(hvd_handle handle);

/* The text of a failed operation ("" while it is not done or if it went well; NULL if there is no
 * such handle). Belongs to the handle: valid until hvd_wait releases it. */
HVD_API const char *hvd_error(hvd_handle handle);

/* Writes a timeline of this rank's operations from here on (Chrome trace events, JSON, valid at
 * every moment) to [path]: %r rank, %j job, %s step, %h host, %% a percent sign. Without %r in it
 * rank 0 writes and others do not, so that all may call it alike. [mark_cycles]: also a mark for
 * each batch that is scheduled. Replaces one that is being written. HVD_ERR_SYSTEM if the file
 * cannot be opened. */
HVD_API int hvd_start_timeline(const char *path, int mark_cycles);
/* Ends it; HVD_OK also if there is none. */
HVD_API int hvd_stop_timeline(void);

/* The text of the last error of a call in this thread; valid until its next call. Never NULL. */
HVD_API const char *hvd_last_error(void);

#ifdef __cplusplus
}
#endif

#endif /* HVD_H */
