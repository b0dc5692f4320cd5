#include "net/objects/s3_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace shoal::net {
namespace {

using ::testing::ElementsAre;

std::string Entry(const std::string& key, const std::string& size) {
  return "<Contents><Key>" + key + "</Key><LastModified>2026-01-01T00:00:00Z</LastModified><Size>" +
         size + "</Size><Owner><ID>x</ID></Owner></Contents>";
}

std::string Listing(const std::string& inner) {
  return "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/\">" +
         inner + "</ListBucketResult>";
}

TEST(S3AnswersTest, ReadsAListing) {
  const auto page = ParseS3Listing(
      Listing("<Name>b</Name>" + Entry("a/%26b", "7") + Entry("c", "18446744073709551615") +
              "<IsTruncated>true</IsTruncated>"
              "<NextContinuationToken>1/x&amp;y=</NextContinuationToken>"));
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  EXPECT_THAT(page->objects,
              ElementsAre(ObjectInfo{"a/&b", 7}, ObjectInfo{"c", 18446744073709551615u}));
  EXPECT_EQ(page->next, "1/x&y=");
  const auto last =
      ParseS3Listing(Listing("<IsTruncated>false</IsTruncated>"
                             "<NextContinuationToken>x</NextContinuationToken>"));
  EXPECT_EQ(last.value().next, "");
}

TEST(S3AnswersTest, RefusesListingsThatAreNone) {
  std::string many, deep;
  for (int i = 0; i < 1001; ++i) many += Entry(std::to_string(i), "1");
  for (int i = 0; i < 20; ++i) deep = "<D>" + deep + "</D>";
  for (const std::string& text :
       {std::string(), std::string("no xml"), std::string("<Other/>"), Listing(Entry("a", "-1")),
        Listing(Entry("a", "1e3")), Listing(Entry("a", "")), Listing(Entry("%4", "1")),
        Listing(Entry("%zz", "1")), Listing("<Contents><Key>a</Key></Contents>"),
        Listing("<Contents><Size>1</Size></Contents>"), Listing("<IsTruncated>true</IsTruncated>"),
        Listing(many), Listing(deep), Listing(Entry(std::string(5000, 'a'), "1")),
        Listing(Entry("a", "1")).substr(0, 120),
        "<!DOCTYPE x [<!ENTITY e \"boom\">]>" + Listing(Entry("&e;", "1"))}) {
    EXPECT_EQ(ParseS3Listing(text).status().code(), StatusCode::kDataLoss) << text.substr(0, 200);
  }
}

TEST(S3AnswersTest, ReadsUploadsAndErrors) {
  EXPECT_EQ(ParseS3UploadId("<InitiateMultipartUploadResult><UploadId>a+/=</UploadId>"
                            "</InitiateMultipartUploadResult>")
                .value(),
            "a+/=");
  EXPECT_FALSE(ParseS3UploadId("<InitiateMultipartUploadResult/>").ok());
  EXPECT_FALSE(ParseS3UploadId("<InitiateMultipartUploadResult><UploadId>a b</UploadId>"
                               "</InitiateMultipartUploadResult>")
                   .ok());
  EXPECT_TRUE(ParseS3Completed("<CompleteMultipartUploadResult/>").ok());
  EXPECT_TRUE(
      ParseS3Completed(" \r\n<?xml version=\"1.0\"?><CompleteMultipartUploadResult/>").ok());
  EXPECT_EQ(ParseS3Completed("<Error><Code>InternalError</Code></Error>").code(),
            StatusCode::kUnavailable);
  const S3Error error = ParseS3Error(
      "<Error><Code>NoSuchKey</Code><Message>two\nlines</Message>"
      "<Key>x</Key></Error>");
  EXPECT_EQ(error.code, "NoSuchKey");
  EXPECT_EQ(error.message, "two lines");
  EXPECT_EQ(ParseS3Error("<html>busy").code, "");
}

TEST(S3AnswersTest, EncodesAsSignaturesHaveIt) {
  EXPECT_EQ(EncodePercent("a/b c+d=~._-\xff"), "a%2Fb%20c%2Bd%3D~._-%FF");
  EXPECT_EQ(DecodePercent(EncodePercent("a/b c+d=\xff")).value(), "a/b c+d=\xff");
  EXPECT_EQ(DecodePercent("%41").value(), "A");
}

}  // namespace
}  // namespace shoal::net
