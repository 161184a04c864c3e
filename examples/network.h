// SPDX-License-Identifier: Apache-2.0
//
// A network of fully connected layers with ReLU between them and softmax at the end. It knows
// nothing of ranks: whoever calls backward() is told as soon as the gradient of a parameter is
// complete, last layer first, while the earlier layers are still to come.
//
// Loops run over contiguous floats without reordering a sum, so that compilers vectorise them and
// one seed gives one result.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace example {

// Something to learn.
struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> value;
  std::vector<float> gradient;  // of the batch's mean loss
  std::vector<float> velocity;  // momentum's memory
};

class Network {
 public:
  // [widths] from the input to the number of classes; [capacity]: largest batch. Values are 0.
  Network(const std::vector<int>& widths, int capacity);

  void draw_weights(uint64_t seed);
  std::vector<Parameter>& parameters() { return parameters_; }

  float* input() { return activations_[0].data(); }  // capacity x widths[0], to be filled
  uint8_t* labels() { return labels_.data(); }       // capacity

  struct Outcome {
    double loss = 0;  // sum over the batch
    int64_t correct = 0;
  };
  Outcome forward(int batch);

  // After forward() of the same batch.
  void backward(int batch, const std::function<void(Parameter&)>& gradient_is_ready);

  static void update(Parameter& parameter, float learning_rate, float momentum);

 private:
  int layers() const { return static_cast<int>(widths_.size()) - 1; }
  Parameter& weight(int layer) { return parameters_[static_cast<size_t>(2 * layer)]; }
  Parameter& bias(int layer) { return parameters_[static_cast<size_t>(2 * layer + 1)]; }

  std::vector<int> widths_;
  std::vector<Parameter> parameters_;            // weight, bias of layer 0, of layer 1, ...
  std::vector<std::vector<float>> activations_;  // [layer] is its input; the last: probabilities
  std::vector<std::vector<float>> errors_;       // [layer]: loss by its output, before ReLU
  std::vector<uint8_t> labels_;
};

}  // namespace example
