// SPDX-License-Identifier: Apache-2.0
//
// Bytes of messages and records: little-endian integers, doubles, and length-prefixed strings.
// A Reader never reads past its input: after the first thing that does not fit, ok() is false and
// every further value is zero or empty, so that callers check once, at the end.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace hvd {

class Writer {
 public:
  void u8(uint8_t v) { bytes_.push_back(static_cast<char>(v)); }
  void u32(uint32_t v) { raw(&v, sizeof v); }
  void u64(uint64_t v) { raw(&v, sizeof v); }
  void i32(int32_t v) { u32(static_cast<uint32_t>(v)); }
  void i64(int64_t v) { u64(static_cast<uint64_t>(v)); }
  void f64(double v) { raw(&v, sizeof v); }
  // Seven bits a byte, lowest first: small numbers are short.
  void varint(uint64_t v) {
    for (; v >= 0x80; v >>= 7) u8(static_cast<uint8_t>(v | 0x80));
    u8(static_cast<uint8_t>(v));
  }
  void string(std::string_view v) {
    u32(static_cast<uint32_t>(v.size()));
    bytes_.append(v);
  }

  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }
  bool empty() const { return bytes_.empty(); }

 private:
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire format is little-endian");
  void raw(const void* p, size_t n) { bytes_.append(static_cast<const char*>(p), n); }
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  uint8_t u8() { return get<uint8_t>(); }
  uint32_t u32() { return get<uint32_t>(); }
  uint64_t u64() { return get<uint64_t>(); }
  int32_t i32() { return get<int32_t>(); }
  int64_t i64() { return get<int64_t>(); }
  double f64() { return get<double>(); }
  // A number has one encoding: others are refused.
  uint64_t varint() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = u8();
      v |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) != 0) continue;
      if ((byte == 0 && shift > 0) || (shift == 63 && byte > 1)) break;
      return v;
    }
    fail();
    return 0;
  }
  // Points into the input.
  std::string_view string() {
    const uint32_t length = u32();
    if (length > rest_.size()) {
      fail();
      return {};
    }
    std::string_view v = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return v;
  }

  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }
  size_t left() const { return rest_.size(); }
  void fail() {
    ok_ = false;
    rest_ = {};
  }

 private:
  template <typename T>
  T get() {
    T v{};
    if (rest_.size() < sizeof v) {
      fail();
      return v;
    }
    memcpy(&v, rest_.data(), sizeof v);
    rest_.remove_prefix(sizeof v);
    return v;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace hvd
