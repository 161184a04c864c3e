// SPDX-License-Identifier: Apache-2.0
#include "examples/network.h"

#include <algorithm>
#include <cmath>

#include "examples/random.h"

namespace example {
namespace {

// to += factor * from
void add(float* to, float factor, const float* from, int count) {
  for (int i = 0; i < count; ++i) to[i] += factor * from[i];
}

// Sums of several lanes, so that a lane is a part of a vector register.
float dot(const float* a, const float* b, int count) {
  constexpr int kLanes = 8;
  float lanes[kLanes] = {};
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  float sum = 0;
  for (; i < count; ++i) sum += a[i] * b[i];
  for (const float lane : lanes) sum += lane;
  return sum;
}

void softmax(float* values, int count) {
  const float most = *std::max_element(values, values + count);
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += values[i] = std::exp(values[i] - most);
  for (int i = 0; i < count; ++i) values[i] /= sum;
}

std::vector<float> zeros(int64_t count) { return std::vector<float>(static_cast<size_t>(count)); }

Parameter make_parameter(const std::string& name, const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return {name, shape, zeros(count), zeros(count), zeros(count)};
}

}  // namespace

Network::Network(const std::vector<int>& widths, int capacity)
    : widths_(widths), labels_(static_cast<size_t>(capacity)) {
  activations_.push_back(zeros(int64_t{capacity} * widths[0]));
  for (int layer = 0; layer < layers(); ++layer) {
    const int64_t in = widths[static_cast<size_t>(layer)];
    const int64_t out = widths[static_cast<size_t>(layer) + 1];
    const std::string name = "layer" + std::to_string(layer);
    parameters_.push_back(make_parameter(name + ".weight", {in, out}));
    parameters_.push_back(make_parameter(name + ".bias", {out}));
    activations_.push_back(zeros(capacity * out));
    errors_.push_back(zeros(capacity * out));
  }
}

// Uniform with the variance 2 / inputs of He et al. 2015, which keeps signals alive behind ReLU.
void Network::draw_weights(uint64_t seed) {
  Random random(seed);
  for (int layer = 0; layer < layers(); ++layer) {
    const float bound = std::sqrt(6.0f / static_cast<float>(widths_[static_cast<size_t>(layer)]));
    for (float& value : weight(layer).value) value = random.uniform(bound);
  }
}

Network::Outcome Network::forward(int batch) {
  for (int layer = 0; layer < layers(); ++layer) {
    const auto at = static_cast<size_t>(layer);
    const int in = widths_[at];
    const int out = widths_[at + 1];
    const float* input = activations_[at].data();
    float* output = activations_[at + 1].data();
    for (int m = 0; m < batch; ++m) {
      std::copy(bias(layer).value.begin(), bias(layer).value.end(), output + m * out);
    }
    // A row of weights stays in the innermost cache for the whole batch.
    for (int i = 0; i < in; ++i) {
      const float* row = weight(layer).value.data() + i * out;
      for (int m = 0; m < batch; ++m) {
        const float x = input[m * in + i];
        if (x != 0) add(output + m * out, x, row, out);  // half of all pixels are black
      }
    }
    if (layer + 1 == layers()) break;
    for (int i = 0; i < batch * out; ++i) output[i] = std::max(output[i], 0.0f);
  }

  Outcome outcome;
  const int classes = widths_.back();
  for (int m = 0; m < batch; ++m) {
    float* scores = activations_.back().data() + m * classes;
    const int label = labels_[static_cast<size_t>(m)];
    outcome.correct += std::max_element(scores, scores + classes) - scores == label;
    softmax(scores, classes);
    outcome.loss -= std::log(std::max(scores[label], 1e-30f));
  }
  return outcome;
}

void Network::backward(int batch, const std::function<void(Parameter&)>& gradient_is_ready) {
  // The loss by the scores: probabilities, less 1 at the right one; of the mean: divided by batch.
  const int classes = widths_.back();
  errors_.back() = activations_.back();
  for (int m = 0; m < batch; ++m) {
    errors_.back()[static_cast<size_t>(m * classes + labels_[static_cast<size_t>(m)])] -= 1;
  }
  for (float& error : errors_.back()) error *= 1.0f / static_cast<float>(batch);

  for (int layer = layers() - 1; layer >= 0; --layer) {
    const auto at = static_cast<size_t>(layer);
    const int in = widths_[at];
    const int out = widths_[at + 1];
    const float* input = activations_[at].data();
    const float* error = errors_[at].data();

    std::vector<float>& by_bias = bias(layer).gradient;
    std::fill(by_bias.begin(), by_bias.end(), 0.0f);
    for (int m = 0; m < batch; ++m) add(by_bias.data(), 1, error + m * out, out);
    gradient_is_ready(bias(layer));

    std::vector<float>& by_weight = weight(layer).gradient;
    std::fill(by_weight.begin(), by_weight.end(), 0.0f);
    for (int i = 0; i < in; ++i) {
      for (int m = 0; m < batch; ++m) {
        const float x = input[m * in + i];
        if (x != 0) add(by_weight.data() + i * out, x, error + m * out, out);
      }
    }
    gradient_is_ready(weight(layer));

    if (layer == 0) break;
    float* before = errors_[at - 1].data();
    for (int i = 0; i < in; ++i) {
      const float* row = weight(layer).value.data() + i * out;
      for (int m = 0; m < batch; ++m) {
        before[m * in + i] = input[m * in + i] > 0 ? dot(row, error + m * out, out) : 0;
      }
    }
  }
}

void Network::update(Parameter& parameter, float learning_rate, float momentum) {
  for (size_t i = 0; i < parameter.value.size(); ++i) {
    parameter.velocity[i] = momentum * parameter.velocity[i] + parameter.gradient[i];
    parameter.value[i] -= learning_rate * parameter.velocity[i];
  }
}

}  // namespace example
