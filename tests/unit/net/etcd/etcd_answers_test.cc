#include "net/etcd/etcd_answers.h"

#include <gmock/gmock.h>

#include <string>

namespace shoal::net {
namespace {

using ::testing::HasSubstr;
namespace pb = etcdserverpb;

pb::RangeResponse Page(const std::vector<std::string>& keys) {
  pb::RangeResponse answer;
  answer.mutable_header()->set_revision(7);
  for (const std::string& key : keys) {
    pb::KeyValue* entry = answer.add_kvs();
    entry->set_key(key);
    entry->set_value("value of " + key);
    entry->set_create_revision(5);
  }
  return answer;
}

// In etcd's numbers, with fields that our .proto leaves out.
TEST(EtcdAnswers, BytesOfEtcdAreUnderstood) {
  pb::RangeResponse range;
  ASSERT_TRUE(
      range.ParseFromString(std::string("\x0a\x04\x18\x07\x20\x02\x12\x0e\x0a\x01"
                                        "a\x10\x05\x18\x06\x20\x02\x2a\x01"
                                        "b\x30\x09"
                                        "\x18\x01\x20\x03",
                                        26)));
  const auto page = ReadEtcdPage(range, {"a", "b"});
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  EXPECT_EQ(page->revision, 7);
  EXPECT_TRUE(page->more);
  ASSERT_EQ(page->entries.size(), 1u);
  EXPECT_EQ(page->entries[0].key, "a");
  EXPECT_EQ(page->entries[0].value, "b");
  EXPECT_EQ(page->entries[0].create_revision, 5);
  EXPECT_EQ(page->entries[0].lease, 9);
}

TEST(EtcdAnswers, APageMustFitWhatWasAsked) {
  EtcdRange range{"b", "e", 2, 0, false};
  EXPECT_EQ(ReadEtcdPage(Page({"b", "c"}), range)->entries.size(), 2u);
  const auto wrong = [&](const pb::RangeResponse& answer, const char* what) {
    const auto page = ReadEtcdPage(answer, range);
    EXPECT_EQ(page.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(page.status().message(), HasSubstr(what));
  };
  wrong(Page({"a"}), "outside");
  wrong(Page({"e"}), "outside");
  wrong(Page({"c", "b"}), "order");
  wrong(Page({"c", "c"}), "order");
  wrong(Page({"b", "c", "d"}), "too many");
  pb::RangeResponse answer = Page({"b"});
  answer.mutable_kvs(0)->set_create_revision(0);
  wrong(answer, "without a revision");
  answer = Page({"b"});
  answer.mutable_kvs(0)->set_value(std::string(kEtcdValueBytesMax + 1, 'x'));
  wrong(answer, "1 MiB");
  answer = Page({"b"});
  answer.clear_header();
  wrong(answer, "no revision");
  answer = Page({});
  answer.set_more(true);
  wrong(answer, "more to come");
  range.last_first = true;
  EXPECT_TRUE(ReadEtcdPage(Page({"c", "b"}), range).ok());
  wrong(Page({"b", "c"}), "order");
}

TEST(EtcdAnswers, ATransactionHasItsPutOrItsReads) {
  EtcdCommit commit;
  commit.otherwise = {"x", "y"};
  pb::TxnResponse answer;
  answer.mutable_header()->set_revision(9);
  answer.set_succeeded(true);
  EXPECT_FALSE(ReadEtcdOutcome(answer, commit).ok());
  answer.add_responses()->mutable_response_put();
  EXPECT_EQ(ReadEtcdOutcome(answer, commit)->revision, 9);
  answer.set_succeeded(false);
  EXPECT_FALSE(ReadEtcdOutcome(answer, commit).ok());
  answer.clear_responses();
  *answer.add_responses()->mutable_response_range() = Page({"x"});
  *answer.add_responses()->mutable_response_range() = Page({});
  const auto outcome = ReadEtcdOutcome(answer, commit);
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->found.at(0)->value, "value of x");
  EXPECT_FALSE(outcome->found.at(1).has_value());
  *answer.mutable_responses(1)->mutable_response_range() = Page({"z"});
  EXPECT_FALSE(ReadEtcdOutcome(answer, commit).ok());
}

TEST(EtcdAnswers, ALeaseHasATime) {
  EXPECT_EQ(ReadEtcdTtl(2).value(), Duration(std::chrono::seconds(2)));
  EXPECT_EQ(ReadEtcdTtl(0).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadEtcdTtl(-1).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadEtcdTtl(1ll << 60).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace shoal::net
