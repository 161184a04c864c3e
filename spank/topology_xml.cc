// SPDX-License-Identifier: Apache-2.0
//
// As much of XML as hwloc writes: elements with attributes, and text between them where matrices
// have their numbers. The file may be anybody's: what is too big, too deep or not closed is
// refused; a matrix with damage is as one that is not there.
#include <algorithm>
#include <charconv>

#include "libhvd/base/parse.h"
#include "spank/topology_tree.h"

namespace hvd {
namespace {

using Type = TreeObject::Type;

constexpr size_t kMostObjects = 100000;
constexpr size_t kMostDepth = 128;
constexpr std::string_view kBlank = " \t\r\n";
constexpr std::string_view kDistances = "distances2";
constexpr std::string_view kMixedDistances = "distances2hetero";  // objects of several types

template <typename Number>
Number number_of(std::string_view text, int base) {
  Number number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, base);
  return number;
}

// "0x0000ffff,,0xff": words of 32 bits, the highest first; none is 0.
CpuSet cpus_of(std::string_view text) {
  CpuSet cpus;
  const std::vector<std::string_view> words = split(text, ',');
  for (size_t i = 0; i < words.size(); ++i) {
    std::string_view digits = words[i];
    if (digits.substr(0, 2) == "0x") digits.remove_prefix(2);
    auto word = number_of<uint32_t>(digits, 16);
    const size_t first = 32 * (words.size() - 1 - i);
    for (size_t cpu = first; word != 0 && cpu < CpuSet::kMost; ++cpu, word >>= 1) {
      if ((word & 1) != 0) cpus.add(static_cast<int>(cpu));
    }
  }
  return cpus;
}

// "0000:c1:00.0"
void read_address(std::string_view text, TreeObject::Pci* pci) {
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() != 3) return;
  const size_t dot = parts[2].find('.');
  if (dot == std::string_view::npos) return;
  pci->domain = number_of<unsigned>(parts[0], 16);
  pci->bus = number_of<unsigned>(parts[1], 16);
  pci->device = number_of<unsigned>(parts[2].substr(0, dot), 16);
  pci->function = number_of<unsigned>(parts[2].substr(dot + 1), 16);
}

// "0302 [10de:1db1] [10de:1212] a1"
void read_kind(std::string_view text, TreeObject::Pci* pci) {
  pci->class_id = number_of<uint16_t>(text.substr(0, 4), 16);
  const size_t bracket = text.find('[');
  if (bracket == std::string_view::npos) return;
  pci->vendor = number_of<uint16_t>(text.substr(bracket + 1, 4), 16);
}

Type type_of(std::string_view text) {
  if (text == "Package") return Type::kPackage;
  if (text == "NUMANode") return Type::kNumaNode;
  if (text == "Core") return Type::kCore;
  if (text == "PU") return Type::kPu;
  if (text == "Bridge") return Type::kBridge;
  if (text == "PCIDev") return Type::kPciDevice;
  if (text == "OSDev") return Type::kOsDevice;
  return Type::kOther;
}

// hwloc's numbers.
Type os_device_type(std::string_view text) {
  if (text == "2") return Type::kNetwork;
  if (text == "3") return Type::kVerbs;
  return Type::kOsDevice;
}

std::string unescaped(std::string_view text) {
  constexpr std::pair<std::string_view, char> kEntities[] = {
      {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};
  std::string plain;
  while (!text.empty()) {
    size_t length = 1;
    char c = text[0];
    for (const auto& [entity, meaning] : kEntities) {
      if (text.substr(0, entity.size()) != entity) continue;
      length = entity.size();
      c = meaning;
    }
    plain += c;
    text.remove_prefix(length);
  }
  return plain;
}

using Attributes = std::vector<std::pair<std::string_view, std::string_view>>;

std::string_view value_of(const Attributes& attributes, std::string_view name) {
  for (const auto& [key, value] : attributes) {
    if (key == name) return value;
  }
  return {};
}

TreeObject object_of(const Attributes& attributes) {
  TreeObject object;
  object.type = type_of(value_of(attributes, "type"));
  if (object.type == Type::kOsDevice) {
    object.type = os_device_type(value_of(attributes, "osdev_type"));
  }
  object.os_index = number_of<int>(value_of(attributes, "os_index"), 10);
  object.id = number_of<uint64_t>(value_of(attributes, "gp_index"), 10);
  object.cpus = cpus_of(value_of(attributes, "cpuset"));
  object.name = unescaped(value_of(attributes, "name"));
  object.nvswitch = value_of(attributes, "subtype") == kNvswitch;
  read_address(value_of(attributes, "pci_busid"), &object.pci);
  read_kind(value_of(attributes, "pci_type"), &object.pci);
  return object;
}

// <distances2 type="OSDev" nbobjs="2" name="XGMIHops" indexing="gp">
//   <indexes>701 702</indexes> <u64values>0 1 1 0</u64values>
// or <distances2hetero ...> with <indexes>OSDev:802 PCIDev:449</indexes>, each in several pieces.
class MatrixReader {
 public:
  // By nbobjs, which the pieces are held to.
  MatrixReader(std::string_view name, size_t objects) : objects_(objects) { matrix_.name = name; }

  const std::string& name() const { return matrix_.name; }

  void take_ids(std::string_view text) {
    for_words(text, [&](std::string_view word) {
      const auto id = parse_count(word.substr(word.find_last_of(':') + 1));
      broken_ = broken_ || !id || matrix_.ids.size() == objects_;
      if (!broken_) matrix_.ids.push_back(static_cast<uint64_t>(*id));
    });
  }

  void take_values(std::string_view text) {
    for_words(text, [&](std::string_view word) {
      const auto value = parse_count(word);
      broken_ = broken_ || !value || matrix_.values.size() == objects_ * objects_;
      if (!broken_) matrix_.values.push_back(*value);
    });
  }

  // Nothing if numbers are missing, too many, or none.
  std::optional<TreeMatrix> whole() && {
    const bool all = matrix_.ids.size() == objects_ && matrix_.values.size() == objects_ * objects_;
    if (broken_ || !all) return std::nullopt;
    return std::move(matrix_);
  }

 private:
  template <typename Take>
  void for_words(std::string_view text, Take take) {
    while (!broken_) {
      const size_t start = text.find_first_not_of(kBlank);
      if (start == std::string_view::npos) return;
      text.remove_prefix(start);
      const size_t end = std::min(text.find_first_of(kBlank), text.size());
      take(text.substr(0, end));
      text.remove_prefix(end);
    }
  }

  TreeMatrix matrix_;
  size_t objects_;
  bool broken_ = false;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  Expected<Tree> all() {
    while (const auto tag = next_tag()) {
      if (Status status = take(*tag); !status.ok()) return status;
    }
    if (!seen_topology_) return error(Code::kInvalid, "is no XML of hwloc");
    if (broken_ || !open_.empty()) return error(Code::kInvalid, "ends too early or is damaged");
    for (MatrixReader& reader : matrices_) {
      if (auto matrix = std::move(reader).whole()) tree_.matrices.push_back(std::move(*matrix));
    }
    return std::move(tree_);
  }

 private:
  // What is between < and the next > outside quotes. Comments and declarations are passed over.
  std::optional<std::string_view> next_tag() {
    while (true) {
      const size_t start = rest_.find('<');
      if (start == std::string_view::npos) return std::nullopt;
      rest_.remove_prefix(start + 1);
      if (rest_.substr(0, 3) == "!--") {
        const size_t end = rest_.find("-->");
        if (end == std::string_view::npos) return cut_off();
        rest_.remove_prefix(end + 3);
        continue;
      }
      char quote = '\0';
      size_t end = 0;
      for (; end < rest_.size(); ++end) {
        const char c = rest_[end];
        if (quote == '\0' && c == '>') break;
        if (quote == '\0' && (c == '"' || c == '\'')) {
          quote = c;
        } else if (c == quote) {
          quote = '\0';
        }
      }
      if (end == rest_.size()) return cut_off();
      const std::string_view tag = rest_.substr(0, end);
      rest_.remove_prefix(end + 1);
      if (!tag.empty() && tag[0] != '?' && tag[0] != '!') return tag;
    }
  }

  std::optional<std::string_view> cut_off() {
    broken_ = true;
    return std::nullopt;
  }

  Status take(std::string_view tag) {
    if (tag[0] == '/') {
      if (open_.empty() || open_.back().name != trim(tag.substr(1))) {
        return error(Code::kInvalid, "ends too early or is damaged");
      }
      open_.pop_back();
      return ok_status();
    }
    const bool closed = tag.back() == '/';
    if (closed) tag.remove_suffix(1);
    const std::string_view name = tag.substr(0, tag.find_first_of(kBlank));
    const Attributes attributes = attributes_of(tag.substr(name.size()));
    int object = open_.empty() ? -1 : open_.back().object;
    if (name == "topology") {
      seen_topology_ = true;
      const std::string_view version = value_of(attributes, "version");
      if (version.substr(0, 2) != "2.") {
        return error(Code::kInvalid, "is of another version than hwloc 2");
      }
    } else if (!seen_topology_) {
      return error(Code::kInvalid, "is no XML of hwloc");
    } else if (name == "object") {
      if (tree_.objects.size() == kMostObjects) {
        return error(Code::kInvalid, "has too many objects");
      }
      tree_.objects.push_back(object_of(attributes));
      tree_.objects.back().parent = object;
      object = static_cast<int>(tree_.objects.size()) - 1;
    } else if (name == "info" && object >= 0) {
      tree_.objects[static_cast<size_t>(object)].infos.emplace_back(
          unescaped(value_of(attributes, "name")), unescaped(value_of(attributes, "value")));
    } else if (name == kDistances || name == kMixedDistances) {
      begin_matrix(name, attributes);
    } else if (!closed && in_matrix_) {
      const std::string_view text = rest_.substr(0, rest_.find('<'));
      if (name == "indexes") matrices_.back().take_ids(text);
      if (name == "u64values") matrices_.back().take_values(text);
    }
    if (closed) return ok_status();
    if (open_.size() == kMostDepth) return error(Code::kInvalid, "is nested too deep");
    open_.push_back({name, object});
    return ok_status();
  }

  // Those of links, and of each name the first.
  void begin_matrix(std::string_view element, const Attributes& attributes) {
    const std::string_view name = value_of(attributes, "name");
    const auto objects = parse_count(value_of(attributes, "nbobjs"));
    in_matrix_ = std::find(std::begin(kLinkMatrices), std::end(kLinkMatrices), name) !=
                     std::end(kLinkMatrices) &&
                 objects && *objects > 0 && *objects <= static_cast<int64_t>(kMostLinked) &&
                 (element == kMixedDistances || value_of(attributes, "indexing") == "gp") &&
                 std::none_of(matrices_.begin(), matrices_.end(),
                              [&](const MatrixReader& known) { return known.name() == name; });
    if (in_matrix_) matrices_.emplace_back(name, static_cast<size_t>(*objects));
  }

  // name="value" ...; what is not written so is passed over.
  static Attributes attributes_of(std::string_view text) {
    Attributes all;
    while (true) {
      const size_t start = text.find_first_not_of(kBlank);
      const size_t equals = text.find('=');
      if (start == std::string_view::npos || equals == std::string_view::npos || equals < start) {
        return all;
      }
      const std::string_view name = trim(text.substr(start, equals - start));
      text.remove_prefix(equals + 1);
      const size_t open = text.find_first_of("\"'");
      if (open == std::string_view::npos) return all;
      const size_t close = text.find(text[open], open + 1);
      if (close == std::string_view::npos) return all;
      all.emplace_back(name, text.substr(open + 1, close - open - 1));
      text.remove_prefix(close + 1);
    }
  }

  struct Open {
    std::string_view name;
    int object;  // the innermost that it is in, or is
  };

  std::string_view rest_;
  std::vector<Open> open_;
  Tree tree_;
  std::vector<MatrixReader> matrices_;
  bool in_matrix_ = false;  // numbers that come are of the last one
  bool seen_topology_ = false;
  bool broken_ = false;
};

}  // namespace

Expected<Tree> parse_tree(std::string_view xml) {
  if (xml.empty()) return error(Code::kInvalid, "is empty");
  if (xml.size() > kMostXmlBytes) return error(Code::kInvalid, "has more than 32 MB");
  auto tree = Parser(xml).all();
  if (!tree.ok()) return tree;
  for (const TreeObject& object : tree->objects) {
    if (object.type == Type::kPu && !object.cpus.empty()) return tree;
  }
  return error(Code::kInvalid, "has no CPU in it");
}

}  // namespace hvd
