// SPDX-License-Identifier: Apache-2.0
#include "config.h"
#include "libhvd/tools/perf/collectives.h"

#ifdef HVD_HAVE_MPI
#include <mpi.h>
#endif

namespace hvd::perf {

#ifndef HVD_HAVE_MPI

Expected<std::unique_ptr<MpiCollectives>> MpiCollectives::start() {
  return error(Code::kInvalid, "this hvd-perf was built without MPI");
}

#else

namespace {

Status result(const char* call, int code) {
  if (code == MPI_SUCCESS) return ok_status();
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return error(Code::kSystem, "%s: %s", call, text);
}

// options.cc has refused the others.
MPI_Datatype datatype(const ElementType& type) {
  switch (type.number) {
    case HVD_UINT8:
      return MPI_UINT8_T;
    case HVD_INT8:
      return MPI_INT8_T;
    case HVD_UINT16:
      return MPI_UINT16_T;
    case HVD_INT16:
      return MPI_INT16_T;
    case HVD_FLOAT32:
      return MPI_FLOAT;
    case HVD_FLOAT64:
      return MPI_DOUBLE;
    case HVD_INT32:
      return MPI_INT32_T;
    default:
      return MPI_INT64_T;
  }
}

MPI_Op operator_of(hvd_op op) {
  switch (op) {
    case HVD_MIN:
      return MPI_MIN;
    case HVD_MAX:
      return MPI_MAX;
    case HVD_PRODUCT:
      return MPI_PROD;
    default:
      return MPI_SUM;
  }
}

class World : public MpiCollectives {
 public:
  World(MPI_Comm communicator, bool ours) : communicator_(communicator), ours_(ours) {}

  // MPI has no groups: the tensors of one go one after the other.
  Status run(const Request& request, std::vector<const void*>* results) override {
    results->clear();
    for (int64_t i = 0; i < request.tensors; ++i) {
      if (Status status = run_one(request, request.input_of(i), request.output_of(i));
          !status.ok()) {
        return status;
      }
      results->push_back(request.output_of(i));
    }
    return ok_status();
  }

  Status release() override { return ok_status(); }
  Status barrier() override { return result("MPI_Barrier", MPI_Barrier(communicator_)); }

  void finish() override {
    MPI_Comm_free(&communicator_);
    if (ours_) MPI_Finalize();
  }

 private:
  Status run_one(const Request& request, const void* input, void* output) {
    const int part = static_cast<int>(request.part);
    const MPI_Datatype type = datatype(*request.type);
    const MPI_Op op = operator_of(request.op);
    if (input == output) input = MPI_IN_PLACE;
    switch (request.operation) {
      case Operation::kAllreduce:
        return result("MPI_Allreduce", MPI_Allreduce(input, output, part, type, op, communicator_));
      case Operation::kAllgather:
        return result("MPI_Allgather",
                      MPI_Allgather(input, part, type, output, part, type, communicator_));
      case Operation::kBroadcast:
        return result("MPI_Bcast", MPI_Bcast(output, part, type, 0, communicator_));
      case Operation::kAlltoall:
        return result("MPI_Alltoall",
                      MPI_Alltoall(input, part, type, output, part, type, communicator_));
      case Operation::kReducescatter:
        return result("MPI_Reduce_scatter_block",
                      MPI_Reduce_scatter_block(input, output, part, type, op, communicator_));
      default:
        return barrier();
    }
  }

  MPI_Comm communicator_;
  bool ours_;  // MPI was started here
};

}  // namespace

Expected<std::unique_ptr<MpiCollectives>> MpiCollectives::start() {
  int started = 0;
  MPI_Initialized(&started);
  if (started == 0) {
    // libhvd leaves MPI alone on one node; its threads make no MPI calls.
    int level = 0;
    const Status status =
        result("MPI_Init_thread", MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level));
    if (!status.ok()) return status;
  }
  int rank = -1;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank != hvd_rank() || size != hvd_size()) {
    return error(Code::kSystem,
                 "MPI calls this rank %d of %d, libhvd %d of %d. Start it with srun --horovod, or "
                 "with the mpirun of the MPI it was built with",
                 rank, size, hvd_rank(), hvd_size());
  }
  MPI_Comm communicator = MPI_COMM_NULL;
  const Status status = result("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &communicator));
  if (!status.ok()) return status;
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  return std::unique_ptr<MpiCollectives>(new World(communicator, started == 0));
}

#endif

}  // namespace hvd::perf
