#include "scheduler/mirror/stored_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

namespace shoal::scheduler {
namespace {

storage::ContentHash HashOf(std::uint8_t first) {
  storage::ContentHash hash;
  hash.digest[0] = first;
  return hash;
}

StoredRun Example() {
  StoredRun run;
  run.run = RunId{0x12};
  run.generation = 3;
  run.step = 20;
  run.config = "[run]\nname = \"a\"\n";
  run.events = {"events", HashOf(1), 100};
  run.initial = {{"data", HashOf(2), 7}, {"layer.0", HashOf(3), 8}};
  run.checkpoint = {{"layer.0", HashOf(4), 9}, {"layer.0.optimizer", HashOf(3), 8}};
  run.origin = {{"model/config.json", HashOf(5), 5}, {"origin.json", HashOf(6), 6}};
  return run;
}

std::string Sealed(const std::string& line) {
  return storage::HashOf(std::as_bytes(std::span(line))).ToHex() + "\n" + line + "\n";
}

std::string Hex(const char* first) { return first + std::string(62, '0'); }

TEST(StoredRunTest, FormIsPinned) {
  const auto file = [](const char* name, const char* size, const char* first) {
    return std::string("{\"name\":\"") + name + "\",\"size\":" + size + ",\"blake2b\":\"" +
           Hex(first) + "\"}";
  };
  const std::string line =
      "{\"format\":1,\"run\":\"0000000000000012\",\"generation\":3,\"step\":20,"
      "\"config\":\"[run]\\nname = \\\"a\\\"\\n\",\"events\":" +
      file("events", "100", "01") + ",\"initial\":[" + file("data", "7", "02") + "," +
      file("layer.0", "8", "03") + "],\"checkpoint\":[" + file("layer.0", "9", "04") + "," +
      file("layer.0.optimizer", "8", "03") + "],\"origin\":[" +
      file("model/config.json", "5", "05") + "," + file("origin.json", "6", "06") + "]}";
  EXPECT_EQ(FormatStoredRun(Example()), Sealed(line));
  EXPECT_EQ(FormatStoredRun(Example()).substr(0, 64),
            "d1ba2e05f3e87a519496d9d4c20680a72835dcfc0bc09cd918e0c1960fd6cff5");
  const auto parsed = ParseStoredRun(FormatStoredRun(Example()), "m");
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(*parsed, Example());
}

TEST(StoredRunTest, NamesEachBlobOnce) {
  const auto blobs = Example().Blobs();
  ASSERT_EQ(blobs.size(), 6u);
  EXPECT_TRUE(std::ranges::is_sorted(blobs, {}, &storage::ArtefactRef::hash));
}

TEST(StoredRunTest, AnyChangedByteIsDamage) {
  const std::string good = FormatStoredRun(Example());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_EQ(ParseStoredRun(bad, "m").status().code(), StatusCode::kDataLoss) << i;
    EXPECT_FALSE(ParseStoredRun(good.substr(0, i), "m").ok()) << i;
  }
}

TEST(StoredRunTest, RefusesWhatCannotBeMeant) {
  const auto change = [](const std::string& from, const std::string& to) {
    const std::string good = FormatStoredRun(Example());
    std::string line = good.substr(65, good.size() - 66);
    const std::size_t at = line.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return Sealed(line.replace(at, from.size(), to));
  };
  EXPECT_EQ(ParseStoredRun(change("\"format\":1", "\"format\":2"), "m").status().code(),
            StatusCode::kUnimplemented);
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"\"step\":20", "\"step\":0"},
      {"\"step\":20", "\"step\":-1"},
      {"\"step\":20", "\"step\":2.5"},
      {"\"generation\":3", "\"generation\":\"3\""},
      {"\"run\":\"0", "\"run\":\"x"},
      {"\"size\":7", "\"size\":1125899906842625"},
      {"model/config.json", "model/../../../etc/passwd"},
      {"model/config.json", "/etc/passwd"},
      {"model/config.json", "model/."},
      {"model/config.json", "config.json"},
      {"\"name\":\"data\"", "\"name\":\"layer.0\""},
      {"\"name\":\"data\"", "\"name\":\"a/b\""},
      {"\"name\":\"data\"", "\"name\":\"\""},
      {"\"blake2b\":\"02", "\"blake2b\":\"2"},
      {"\"initial\":[", "\"initially\":["},
      {"\"config\":", "\"config\":7,\"other\":"}};
  for (const auto& [from, to] : changes) {
    EXPECT_EQ(ParseStoredRun(change(from, to), "m").status().code(), StatusCode::kDataLoss) << to;
  }
  EXPECT_FALSE(ParseStoredRun(Sealed("[]"), "m").ok());
  EXPECT_FALSE(ParseStoredRun(Sealed(std::string(100, '[')), "m").ok());
}

TEST(StoredRunTest, NamesGoBackAndForthInOrder) {
  EXPECT_EQ(ManifestKey({3, 20}), "manifests/00000000000000000003-00000000000000000020");
  EXPECT_EQ(ParseManifestKey(ManifestKey({~0ull, 7})), (ManifestName{~0ull, 7}));
  EXPECT_LT(ManifestKey({3, 99}), ManifestKey({4, 2}));
  EXPECT_LT(ManifestKey({3, 99}), ManifestKey({3, 100}));
  for (const char* key : {"manifests/", "manifests/3-20", "blobs/x",
                          "manifests/00000000000000000003_00000000000000000020",
                          "manifests/0000000000000000000x-00000000000000000020",
                          "manifests/99999999999999999999-00000000000000000020"}) {
    EXPECT_FALSE(ParseManifestKey(key)) << key;
  }
  EXPECT_EQ(BlobKey(HashOf(0xab)), "blobs/ab" + std::string(62, '0'));
  EXPECT_EQ(ParseBlobKey(BlobKey(HashOf(0xab))), HashOf(0xab));
  EXPECT_FALSE(ParseBlobKey("blobs/ab"));
}

}  // namespace
}  // namespace shoal::scheduler
