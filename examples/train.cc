// SPDX-License-Identifier: Apache-2.0
//
// Data-parallel training in plain C++: every rank holds the whole network and learns from its share
// of each batch; hvd.h averages the gradients. The same program runs as one process and, under
// `srun --horovod`, as many.
//
// What makes it distributed is marked (1) to (5) below; the rest is any training loop.
#include <getopt.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "examples/fashion_mnist.h"
#include "examples/network.h"
#include "examples/random.h"
#include "libhvd/base/sha256.h"
#include "libhvd/hvd.h"

namespace example {
namespace {

constexpr float kMomentum = 0.9f;
constexpr int kBatchPerRank = 32;
constexpr int kTestBatch = 100;

struct Options {
  std::string data = kDefaultData;
  int epochs = 3;
  int64_t steps = 0;  // 0: as many as the epochs have
  int batch = 0;      // of all ranks together; 0: kBatchPerRank for each
  double learning_rate = 0.05;
  uint64_t seed = 1;
  std::string save;
};

constexpr char kUsage[] =
    "usage: train [OPTION]...\n"
    "       srun --horovod -N2 --ntasks-per-node=2 train\n"
    "\n"
    "Trains a small network on Fashion-MNIST, on as many ranks as there are.\n"
    "\n"
    "  --epochs N           times to go through the data (3)\n"
    "  --steps N            stop after so many batches\n"
    "  --batch N            pictures in a batch, all ranks together (32 for each rank)\n"
    "  --learning-rate X    how far the first step goes; later ones less and less (0.05)\n"
    "  --seed N             of the first weights and of the order of the pictures (1)\n"
    "  --save FILE          write the weights to FILE at the end, as plain float32\n"
    "  --data DIR           where the data set is (/usr/share/datasets/fashion-mnist)\n"
    "  --help               print this\n";

[[noreturn]] __attribute__((format(printf, 2, 3))) void end(int status, const char* text, ...) {
  std::string line = "train: ";
  line += text;
  line += '\n';
  va_list arguments;
  va_start(arguments, text);
  vfprintf(stderr, line.c_str(), arguments);
  va_end(arguments);
  exit(status);
}

// The error of a call of hvd.h is in hvd_last_error(); it says who or what, and often the way out.
void check(int code) {
  if (code != HVD_OK) end(1, "%s", hvd_last_error());
}

double number(const char* option, const char* text, double least, double most) {
  char* rest = nullptr;
  const double value = strtod(text, &rest);
  if (rest == text || *rest != '\0' || !(value >= least && value <= most)) {
    end(2, "--%s is \"%s\", not a number from %g to %g", option, text, least, most);
  }
  return value;
}

Options parse(int argc, char** argv) {
  static const option kOptions[] = {{"epochs", required_argument, nullptr, 'e'},
                                    {"steps", required_argument, nullptr, 's'},
                                    {"batch", required_argument, nullptr, 'b'},
                                    {"learning-rate", required_argument, nullptr, 'l'},
                                    {"seed", required_argument, nullptr, 'r'},
                                    {"save", required_argument, nullptr, 'o'},
                                    {"data", required_argument, nullptr, 'd'},
                                    {"help", no_argument, nullptr, 'h'},
                                    {nullptr, 0, nullptr, 0}};
  Options options;
  int index = 0;
  for (int c; (c = getopt_long(argc, argv, "", kOptions, &index)) != -1;) {
    const char* name = c == '?' ? "" : kOptions[index].name;
    switch (c) {
      case 'e':
        options.epochs = static_cast<int>(number(name, optarg, 1, 1000));
        break;
      case 's':
        options.steps = static_cast<int64_t>(number(name, optarg, 1, 1e9));
        break;
      case 'b':
        options.batch = static_cast<int>(number(name, optarg, 1, 60000));
        break;
      case 'l':
        options.learning_rate = number(name, optarg, 1e-9, 10);
        break;
      case 'r':
        options.seed = static_cast<uint64_t>(number(name, optarg, 0, 1e15));
        break;
      case 'o':
        options.save = optarg;
        break;
      case 'd':
        options.data = optarg;
        break;
      case 'h':
        fputs(kUsage, stdout);
        exit(0);
      default:
        end(2, "\"train --help\" lists the options");
    }
  }
  if (optind < argc) end(2, "\"%s\" is no option; \"train --help\" lists them", argv[optind]);
  return options;
}

double seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// How far the epoch is: a bar that moves on a terminal, else a line now and then. Of rank 0.
class Progress {
 public:
  Progress(int epoch, int epochs, int steps) : epoch_(epoch), epochs_(epochs), steps_(steps) {}

  // After [step] steps; [samples] of them all ranks together, [loss] the mean so far.
  void show(int step, int64_t samples, double loss) {
    const double now = seconds();
    if (step < steps_ && now - shown_ < (terminal_ ? 0.1 : 2.0)) return;
    shown_ = now;
    std::string bar;
    if (terminal_) {
      const auto full = static_cast<size_t>(kBar * step / steps_);
      bar = " [" + std::string(full, '#') + std::string(kBar - full, '.') + "]";
    }
    printf("%sepoch %d/%d%s %3d %%  loss %.4f  %.0f samples/s%s", terminal_ ? "\r" : "", epoch_,
           epochs_, bar.c_str(), 100 * step / steps_, loss,
           static_cast<double>(samples) / (now - start_), terminal_ && step < steps_ ? "" : "\n");
    fflush(stdout);
  }

 private:
  static constexpr int kBar = 30;
  int epoch_;
  int epochs_;
  int steps_;
  bool terminal_ = isatty(STDOUT_FILENO) == 1;
  double start_ = seconds();
  double shown_ = start_;
};

class Training {
 public:
  Training(const Options& options, const Pictures& train, const Pictures& test)
      : options_(options),
        train_(train),
        test_(test),
        batch_(options.batch != 0 ? options.batch : kBatchPerRank * hvd_size()),
        share_(batch_ / hvd_size()),
        network_({kPixels, 128, 64, kClasses}, std::max(share_, kTestBatch)) {}

  // Returns the exit status.
  int run();

 private:
  int refuse(const char* why, int near) const;
  void broadcast_weights();
  void train_epoch(int epoch, int steps);
  Network::Outcome step(const int* indices);
  float learning_rate() const;
  void fill(const Pictures& pictures, const int* indices, int count);
  double test_accuracy();
  void print_hash(int epoch);
  void save();

  const Options& options_;
  const Pictures& train_;
  const Pictures& test_;
  int batch_;  // of all ranks
  int share_;  // of this rank
  int epochs_ = 0;
  int64_t steps_ = 0;
  int64_t steps_done_ = 0;
  Network network_;
};

int Training::run() {
  if (batch_ > train_.count) return refuse("is more than there is to learn from", train_.count);
  if (batch_ % hvd_size() != 0) return refuse("cannot be shared evenly", batch_);
  const int steps_per_epoch = train_.count / batch_;
  steps_ = int64_t{options_.epochs} * steps_per_epoch;
  if (options_.steps != 0) steps_ = std::min(steps_, options_.steps);
  epochs_ = static_cast<int>((steps_ + steps_per_epoch - 1) / steps_per_epoch);

  broadcast_weights();
  if (hvd_rank() == 0) {
    printf("%d rank%s on %d node%s, batches of %d, %lld steps\n", hvd_size(),
           hvd_size() == 1 ? "" : "s", hvd_cross_size(), hvd_cross_size() == 1 ? "" : "s", batch_,
           static_cast<long long>(steps_));
  }
  for (int epoch = 1; steps_done_ < steps_; ++epoch) {
    const auto steps = static_cast<int>(std::min<int64_t>(steps_ - steps_done_, steps_per_epoch));
    const double start = seconds();
    train_epoch(epoch, steps);
    const double accuracy = test_accuracy();
    if (hvd_rank() == 0) {
      printf("epoch %d/%d test accuracy %.4f after %.1f s\n", epoch, epochs_, accuracy,
             seconds() - start);
    }
    print_hash(epoch);
  }
  if (hvd_rank() == 0 && !options_.save.empty()) save();
  return 0;
}

// The same on every rank: rank 0 says it. [near]: about the batch that would do.
int Training::refuse(const char* why, int near) const {
  if (hvd_rank() == 0) {
    fprintf(stderr, "train: a batch of %d %s (%d ranks); take --batch %d\n", batch_, why,
            hvd_size(), std::max(near / hvd_size(), 1) * hvd_size());
  }
  return 2;
}

// (2) Every rank starts from rank 0's weights. Never again: equal weights and equal gradients make
// equal weights, bit by bit.
void Training::broadcast_weights() {
  if (hvd_rank() == 0) network_.draw_weights(options_.seed);
  for (Parameter& parameter : network_.parameters()) {
    const hvd_tensor tensor{parameter.value.data(), parameter.shape.data(),
                            static_cast<int32_t>(parameter.shape.size()), HVD_FLOAT32, HVD_HOST};
    check(hvd_broadcast(parameter.name.c_str(), &tensor, tensor.data, 0, HVD_GLOBAL));
  }
}

// (3) All ranks shuffle alike; of each batch rank r takes the r-th share.
void Training::train_epoch(int epoch, int steps) {
  std::vector<int> order(static_cast<size_t>(train_.count));
  std::iota(order.begin(), order.end(), 0);
  Random(options_.seed * 1000003 + static_cast<uint64_t>(epoch)).shuffle(order);

  Progress progress(epoch, epochs_, steps);
  double loss = 0;
  for (int i = 0; i < steps; ++i) {
    loss += step(order.data() + i * batch_ + hvd_rank() * share_).loss;
    if (hvd_rank() != 0) continue;
    progress.show(i + 1, int64_t{i + 1} * batch_, loss / (static_cast<double>(i + 1) * share_));
  }
}

// (4) A gradient is submitted as soon as it is there, under its parameter's name; while it travels
// the earlier layers are computed. Then each is waited for, in the same order.
Network::Outcome Training::step(const int* indices) {
  struct InFlight {
    Parameter* parameter;
    hvd_handle handle;
  };
  std::vector<InFlight> in_flight;
  fill(train_, indices, share_);
  const Network::Outcome outcome = network_.forward(share_);
  network_.backward(share_, [&](Parameter& parameter) {
    const hvd_tensor gradient{parameter.gradient.data(), parameter.shape.data(),
                              static_cast<int32_t>(parameter.shape.size()), HVD_FLOAT32, HVD_HOST};
    hvd_handle handle = 0;
    check(hvd_allreduce_async(parameter.name.c_str(), &gradient, parameter.gradient.data(),
                              HVD_AVERAGE, 1.0, 1.0, HVD_GLOBAL, &handle));
    in_flight.push_back({&parameter, handle});
  });
  for (const InFlight& sent : in_flight) {
    check(hvd_wait(sent.handle, -1));
    Network::update(*sent.parameter, learning_rate(), kMomentum);
  }
  ++steps_done_;
  return outcome;
}

// Falls to nothing in a straight line, over the whole run.
float Training::learning_rate() const {
  const double left = static_cast<double>(steps_ - steps_done_) / static_cast<double>(steps_);
  return static_cast<float>(options_.learning_rate * left);
}

void Training::fill(const Pictures& pictures, const int* indices, int count) {
  for (int m = 0; m < count; ++m) {
    pictures.copy(indices[m], network_.input() + m * kPixels);
    network_.labels()[m] = pictures.labels[static_cast<size_t>(indices[m])];
  }
}

// (5) Each rank tests every size-th picture; the counts are summed.
double Training::test_accuracy() {
  std::vector<int> mine;
  for (int i = hvd_rank(); i < test_.count; i += hvd_size()) mine.push_back(i);
  int64_t correct = 0;
  for (size_t at = 0; at < mine.size(); at += kTestBatch) {
    const int count = static_cast<int>(std::min<size_t>(kTestBatch, mine.size() - at));
    fill(test_, mine.data() + at, count);
    correct += network_.forward(count).correct;
  }
  const int64_t shape = 1;
  const hvd_tensor count{&correct, &shape, 1, HVD_INT64, HVD_HOST};
  check(hvd_allreduce("correct", &count, &correct, HVD_SUM, 1.0, 1.0, HVD_GLOBAL));
  return static_cast<double>(correct) / test_.count;
}

// Equal on all ranks, or something is wrong.
void Training::print_hash(int epoch) {
  hvd::Sha256 hash;
  for (const Parameter& parameter : network_.parameters()) {
    hash.update(parameter.value.data(), parameter.value.size() * sizeof(float));
  }
  printf("epoch %d rank %d weights sha256 %s\n", epoch, hvd_rank(),
         hvd::to_hex(hvd::view(hash.finish())).c_str());
  fflush(stdout);
}

void Training::save() {
  FILE* file = fopen(options_.save.c_str(), "wb");
  if (file == nullptr) end(1, "--save \"%s\": %s", options_.save.c_str(), strerror(errno));
  bool written = true;
  for (const Parameter& parameter : network_.parameters()) {
    const std::vector<float>& value = parameter.value;
    written = fwrite(value.data(), sizeof(float), value.size(), file) == value.size() && written;
  }
  if (fclose(file) != 0 || !written)
    end(1, "--save \"%s\": the disk is full", options_.save.c_str());
}

}  // namespace
}  // namespace example

int main(int argc, char** argv) {
  using namespace example;
  const Options options = parse(argc, argv);
  Pictures train;
  Pictures test;
  for (const auto& [set, pictures] : {std::pair{"train", &train}, std::pair{"t10k", &test}}) {
    const std::string wrong = load(options.data, set, *pictures);
    if (!wrong.empty()) end(1, "%s", wrong.c_str());
  }
  check(hvd_init());  // (1) find the other ranks
  const int status = Training(options, train, test).run();
  check(hvd_shutdown());
  return status;
}
