// SPDX-License-Identifier: Apache-2.0
//
// How large the gradients of well-known models are: what a training step reduces. Made from how
// the models are built. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace hvd::perf {

struct Model {
  std::string_view name;
  // Elements of each parameter, in the order in which the model's definition has them, which is
  // that of the forward pass.
  std::vector<int64_t> (*parameters)();
};

// torchvision's resnet50 and vgg16 with 1,000 classes, and the encoder bert-base-uncased with its
// pooler.
std::vector<int64_t> resnet50_parameters();
std::vector<int64_t> bert_base_parameters();
std::vector<int64_t> vgg16_parameters();

inline constexpr Model kModels[] = {
    {"resnet50", resnet50_parameters},
    {"bert-base", bert_base_parameters},
    {"vgg16", vgg16_parameters},
};

}  // namespace hvd::perf
