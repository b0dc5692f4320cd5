#include "net/objects/object_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/objects/object_store.h"

namespace shoal::net {
namespace {

using ::testing::HasSubstr;

TEST(ObjectAddressTest, ReadsBucketsAndFolders) {
  const auto s3 = ParseObjectAddress("s3://my-bucket/runs/a_1/").value();
  EXPECT_EQ(s3.bucket, "my-bucket");
  EXPECT_EQ(s3.prefix, "runs/a_1");
  EXPECT_EQ(ParseObjectAddress("s3://my.bucket").value().prefix, "");
  const auto folder = ParseObjectAddress("file:///mnt/disk of mine/").value();
  EXPECT_EQ(folder.bucket, "");
  EXPECT_EQ(folder.folder, "/mnt/disk of mine");
}

TEST(ObjectAddressTest, RefusesWhatCannotBeMeant) {
  for (const char* text :
       {"", "s3://", "s3://ab", "s3://Bucket", "s3://-bucket", "s3://a..b", "s3://bucket//x",
        "s3://bucket/a/../b", "s3://bucket/a b", "s3://bucket/x?y", "https://host/bucket",
        "/folder", "file://relative", "file:///a/../b", "gs://bucket/x"}) {
    const auto parsed = ParseObjectAddress(text);
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(parsed.status().message(), HasSubstr("s3://BUCKET/PREFIX")) << text;
  }
  EXPECT_FALSE(ParseObjectAddress("s3://bucket/" + std::string(300, 'a')).ok());
}

TEST(ObjectAddressTest, EndpointsAreEncryptedButForLoopback) {
  EXPECT_EQ(ParseObjectEndpoint("", "eu-west-1", false).value().url,
            "https://s3.eu-west-1.amazonaws.com");
  const auto own = ParseObjectEndpoint("https://minio.example:9000/", "us-east-1", false).value();
  EXPECT_EQ(own.url, "https://minio.example:9000");
  EXPECT_EQ(own.host, "minio.example");
  EXPECT_FALSE(own.loopback);
  for (const char* text : {"http://127.0.0.1:9000", "http://localhost", "http://[::1]:9000"}) {
    EXPECT_TRUE(ParseObjectEndpoint(text, "auto", false).value().loopback) << text;
  }
  const auto plain = ParseObjectEndpoint("http://192.168.1.5:9000", "us-east-1", false);
  EXPECT_THAT(plain.status().message(), HasSubstr("plain_http = true"));
  EXPECT_TRUE(ParseObjectEndpoint("http://192.168.1.5:9000", "us-east-1", true).ok());
}

TEST(ObjectAddressTest, RefusesEndpointsThatHideSomething) {
  for (const char* text :
       {"minio.example", "ftp://host", "https://", "https://user@host", "https://host/path",
        "https://host:0", "https://host:70000", "https://host:1x", "https://host?x", "https://[::1",
        "http://127.0.0.1@evil.example", "https://ho st"}) {
    EXPECT_EQ(ParseObjectEndpoint(text, "us-east-1", true).status().code(),
              StatusCode::kInvalidArgument)
        << text;
  }
  for (const char* region : {"", "US", "us east", "a:b", "a/b"}) {
    EXPECT_FALSE(CheckObjectRegion(region).ok()) << region;
  }
}

TEST(ObjectAddressTest, KeysAreBoundedPlainPaths) {
  EXPECT_TRUE(IsObjectKey("blobs/0a.B_c-d"));
  EXPECT_TRUE(IsObjectKey(std::string(kObjectKeyBytesMax, 'k')));
  EXPECT_FALSE(IsObjectKey(std::string(kObjectKeyBytesMax + 1, 'k')));
}

}  // namespace
}  // namespace shoal::net
