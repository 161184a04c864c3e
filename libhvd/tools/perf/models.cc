// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/perf/models.h"

namespace hvd::perf {
namespace {

constexpr int64_t kClasses = 1000;

class Parameters {
 public:
  void convolution(int64_t inputs, int64_t outputs, int64_t width) {
    sizes_.push_back(outputs * inputs * width * width);
  }
  void bias(int64_t outputs) { sizes_.push_back(outputs); }
  void linear(int64_t inputs, int64_t outputs) {
    sizes_.push_back(outputs * inputs);
    bias(outputs);
  }
  void embedding(int64_t entries, int64_t width) { sizes_.push_back(entries * width); }
  // Of a batch or of a layer: weight and bias for each feature.
  void norm(int64_t features) {
    bias(features);
    bias(features);
  }

  std::vector<int64_t> take() { return std::move(sizes_); }

 private:
  std::vector<int64_t> sizes_;
};

// Narrow, 3 x 3, wide; the first of a stage also takes its input to the new width.
void add_bottleneck(Parameters& model, int64_t inputs, int64_t width, bool first) {
  constexpr int64_t kExpansion = 4;
  const int64_t outputs = width * kExpansion;
  model.convolution(inputs, width, 1);
  model.norm(width);
  model.convolution(width, width, 3);
  model.norm(width);
  model.convolution(width, outputs, 1);
  model.norm(outputs);
  if (!first) return;
  model.convolution(inputs, outputs, 1);
  model.norm(outputs);
}

void add_encoder_layer(Parameters& model, int64_t hidden, int64_t intermediate) {
  for (int projection = 0; projection < 4; ++projection) {  // query, key, value, output
    model.linear(hidden, hidden);
  }
  model.norm(hidden);
  model.linear(hidden, intermediate);
  model.linear(intermediate, hidden);
  model.norm(hidden);
}

}  // namespace

std::vector<int64_t> resnet50_parameters() {
  Parameters model;
  model.convolution(3, 64, 7);
  model.norm(64);
  int64_t inputs = 64;
  int64_t width = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      add_bottleneck(model, inputs, width, block == 0);
      inputs = width * 4;
    }
    width *= 2;
  }
  model.linear(inputs, kClasses);
  return model.take();
}

std::vector<int64_t> bert_base_parameters() {
  constexpr int64_t kHidden = 768;
  Parameters model;
  model.embedding(30522, kHidden);  // words
  model.embedding(512, kHidden);    // positions
  model.embedding(2, kHidden);      // kinds of a sentence
  model.norm(kHidden);
  for (int layer = 0; layer < 12; ++layer) add_encoder_layer(model, kHidden, 4 * kHidden);
  model.linear(kHidden, kHidden);  // pooler
  return model.take();
}

std::vector<int64_t> vgg16_parameters() {
  Parameters model;
  int64_t inputs = 3;
  for (const int64_t outputs : {64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512}) {
    model.convolution(inputs, outputs, 3);
    model.bias(outputs);
    inputs = outputs;
  }
  model.linear(inputs * 7 * 7, 4096);
  model.linear(4096, 4096);
  model.linear(4096, kClasses);
  return model.take();
}

}  // namespace hvd::perf
