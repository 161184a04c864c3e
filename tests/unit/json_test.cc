// SPDX-License-Identifier: Apache-2.0
#include "libhvd/base/json.h"

#include <climits>

#include "tests/unit/catch.h"

namespace hvd {
namespace {

TEST_CASE("JSON texts are quoted so that every reader gets the same characters back") {
  const struct {
    std::string text;
    const char* quoted;
  } cases[] = {
      {"", "\"\""},
      {"layer1.weight", "\"layer1.weight\""},
      {"say \"hi\" \\ bye", "\"say \\\"hi\\\" \\\\ bye\""},
      {"a\nb\tc", "\"a\\nb\\tc\""},
      {std::string("nul\0esc\x1b[31m", 12), "\"nul\\u0000esc\\u001b[31m\""},
      {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
  };
  for (const auto& c : cases) {
    CAPTURE(c.quoted);
    CHECK(json_quoted(c.text) == c.quoted);
    const auto read = Json::parse(c.quoted);
    REQUIRE(read);
    CHECK(read->text() == c.text);
  }
}

TEST_CASE("bytes that are no UTF-8 do not make bad JSON") {
  for (const char* bad : {"\xff", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\x80", "\xf8\x88\x80\x80\x80"}) {
    const std::string quoted = json_quoted(std::string("a") + bad + "b");
    CAPTURE(quoted);
    CHECK(quoted.find(bad) == std::string::npos);
    CHECK(quoted.find("\xef\xbf\xbd") == 2);
    CHECK(quoted.substr(quoted.size() - 2) == "b\"");
  }
}

TEST_CASE("what is written is read back, members in the order in which they were set") {
  Json json = Json::object();
  json.set("name", "x").set("none", Json()).set("yes", true).set("no", false);
  json.set("least", INT64_MIN).set("most", INT64_MAX).set("zero", 0);
  json.set("empty", Json::array()).set("void", Json::object());
  json.set("list", Json::array().add(1).add("two").add(Json::array().add(3)));
  json.set("name", "y");
  const std::string text = json.dump();
  CHECK(text ==
        "{\"name\": \"y\", \"none\": null, \"yes\": true, \"no\": false, "
        "\"least\": -9223372036854775808, \"most\": 9223372036854775807, \"zero\": 0, "
        "\"empty\": [], \"void\": {}, \"list\": [1, \"two\", [3]]}");
  const auto read = Json::parse(text);
  REQUIRE(read);
  CHECK(read->dump() == text);
  CHECK((*read)["least"].number() == INT64_MIN);
  CHECK((*read)["yes"].truth());
  CHECK((*read)["list"].items().size() == 3);
}

TEST_CASE("what is not there, or of another type, reads as nothing") {
  const auto json = Json::parse(" { \"a\" : [ 1 , \"x\" ] } ");
  REQUIRE(json);
  CHECK((*json)["b"]["c"].is_null());
  CHECK((*json)["a"].text() == "");
  CHECK((*json)["a"].number() == 0);
  CHECK((*json)["a"].members().empty());
  CHECK((*json)["a"].items()[1].items().empty());
}

TEST_CASE("escapes are read, pairs of surrogates too") {
  const auto json = Json::parse(R"("\u00e9\u20AC\ud83d\ude00\/\b\f\r")");
  REQUIRE(json);
  CHECK(json->text() == "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80/\b\f\r");
}

TEST_CASE("what is no JSON is refused, and deep nesting does not exhaust the stack") {
  const std::string deep(100000, '[');
  for (const std::string& bad : {std::string(""),
                                 std::string("{"),
                                 std::string("[1,]"),
                                 std::string("[1 2]"),
                                 std::string("{\"a\"}"),
                                 std::string("{\"a\":}"),
                                 std::string("{a:1}"),
                                 std::string("\"open"),
                                 std::string("\"line\nbreak\""),
                                 std::string("\"\\x\""),
                                 std::string("\"\\u12\""),
                                 std::string("\"\\ud800\""),
                                 std::string("\"\\ud800\\u0041\""),
                                 std::string("nul"),
                                 std::string("1.5"),
                                 std::string("1e3"),
                                 std::string("-"),
                                 std::string("9223372036854775808"),
                                 std::string("1 1"),
                                 std::string("{} x"),
                                 deep}) {
    CAPTURE(bad.substr(0, 40));
    CHECK_FALSE(Json::parse(bad));
  }
}

}  // namespace
}  // namespace hvd
