// One suite for every ObjectStore, then what only a service over a network can do to us.

#include "net/objects/object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "net/objects/open_object_store.h"
#include "tests/support/s3_server.h"
#include "tests/support/temporary_folder.h"

namespace shoal::net {
namespace {

using test_support::S3Server;
using test_support::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ObjectStoreOptions S3Options(const S3Server& server) {
  ObjectStoreOptions options;
  options.address = "s3://bucket/runs/first";
  options.endpoint = "http://127.0.0.1:" + server.port();
  options.region = "us-east-1";
  options.credentials = {"key", "secret", ""};
  options.wait = [](Duration) {};
  options.part_bytes = 1000;
  return options;
}

std::unique_ptr<ObjectStore> MustOpen(ObjectStoreOptions options) {
  auto store = OpenObjectStore(std::move(options));
  EXPECT_TRUE(store.ok()) << store.status().ToString();
  return store.ok() ? *std::move(store) : nullptr;
}

// Bytes that differ from place to place.
std::string Bytes(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 131 + (i >> 8) * 7);
  return bytes;
}

std::string WriteFile(const TemporaryFolder& folder, const std::string& bytes) {
  const std::string path = folder / "file";
  EXPECT_TRUE(WriteFileAtomic(path, bytes).ok());
  return path;
}

enum class Kind : std::uint8_t { kFolder, kS3 };

class ObjectStoreContract : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    ObjectStoreOptions options;
    if (GetParam() == Kind::kS3) {
      server_ = std::make_unique<S3Server>();
      ASSERT_FALSE(server_->port().empty());
      options = S3Options(*server_);
    }
    if (GetParam() == Kind::kFolder) options.address = "file://" + (folder_ / "store/deep");
    options.wait = [](Duration) {};
    options.stop = stop_.get_token();
    store_ = MustOpen(options);
    ASSERT_NE(store_, nullptr);
  }

  TemporaryFolder folder_;
  std::stop_source stop_;
  std::unique_ptr<S3Server> server_;
  std::unique_ptr<ObjectStore> store_;
};

INSTANTIATE_TEST_SUITE_P(Stores, ObjectStoreContract, ::testing::Values(Kind::kFolder, Kind::kS3),
                         [](const auto& of) {
                           return of.param == Kind::kFolder ? "Folder" : "S3";
                         });

TEST_P(ObjectStoreContract, KeepsBytesAndReplacesThem) {
  EXPECT_TRUE(store_->PutBytes("blobs/a", "first").ok());
  EXPECT_TRUE(store_->PutBytes("blobs/a", "the second").ok());
  const auto head = store_->Head("blobs/a");
  ASSERT_TRUE(head.ok()) << head.status().ToString();
  EXPECT_EQ(head->size, 10u);
  const auto all = store_->Get("blobs/a", 0, 100);
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  EXPECT_EQ(*all, "the second");
}

TEST_P(ObjectStoreContract, GivesPartsAndNothingBehindTheEnd) {
  ASSERT_TRUE(store_->PutBytes("a", "0123456789").ok());
  EXPECT_EQ(store_->Get("a", 2, 3).value(), "234");
  EXPECT_EQ(store_->Get("a", 8, 5).value(), "89");
  EXPECT_EQ(store_->Get("a", 10, 5).value(), "");
  EXPECT_EQ(store_->Get("a", 99, 5).value(), "");
  EXPECT_EQ(store_->Get("a", 0, 0).value(), "");
}

TEST_P(ObjectStoreContract, KeepsEmptyObjects) {
  ASSERT_TRUE(store_->PutBytes("empty", "").ok());
  EXPECT_EQ(store_->Head("empty").value().size, 0u);
  EXPECT_EQ(store_->Get("empty", 0, 5).value(), "");
  ASSERT_TRUE(store_->PutFile("file", WriteFile(folder_, "")).ok());
  EXPECT_EQ(store_->Head("file").value().size, 0u);
}

TEST_P(ObjectStoreContract, KeepsFilesOfAnySize) {
  for (const std::size_t size : {1u, 999u, 1000u, 1001u, 2000u, 12345u}) {
    const std::string bytes = Bytes(size);
    const Status put = store_->PutFile("blobs/file", WriteFile(folder_, bytes));
    ASSERT_TRUE(put.ok()) << size << ": " << put.ToString();
    EXPECT_EQ(store_->Head("blobs/file").value().size, size);
    EXPECT_EQ(store_->Get("blobs/file", 0, size + 1).value(), bytes) << size;
  }
}

TEST_P(ObjectStoreContract, SaysWhatIsNotThere) {
  EXPECT_EQ(store_->Head("none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->Get("none", 0, 10).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->PutFile("a", folder_ / "none").code(), StatusCode::kNotFound);
  EXPECT_TRUE(store_->Delete("none").ok());
  EXPECT_EQ(store_->List("none/").value().size(), 0u);
}

TEST_P(ObjectStoreContract, ListsByPrefixInOrder) {
  for (const char* key : {"b/2", "b/10", "c", "b/1", "bb"}) {
    ASSERT_TRUE(store_->PutBytes(key, key).ok());
  }
  EXPECT_THAT(store_->List("b/").value(),
              ElementsAre(ObjectInfo{"b/1", 3}, ObjectInfo{"b/10", 4}, ObjectInfo{"b/2", 3}));
  EXPECT_EQ(store_->List("").value().size(), 5u);
}

TEST_P(ObjectStoreContract, Deletes) {
  ASSERT_TRUE(store_->PutBytes("b/1", "x").ok());
  EXPECT_TRUE(store_->Delete("b/1").ok());
  EXPECT_EQ(store_->Head("b/1").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->List("").value().size(), 0u);
}

TEST_P(ObjectStoreContract, RefusesKeysThatAreNone) {
  for (const char* key :
       {"", "/a", "a/", "a//b", ".", "../x", "a/../b", "a b", "a?b", "a%2Fb", "é"}) {
    EXPECT_EQ(store_->PutBytes(key, "x").code(), StatusCode::kInvalidArgument) << key;
    EXPECT_EQ(store_->Get(key, 0, 1).status().code(), StatusCode::kInvalidArgument) << key;
    EXPECT_EQ(store_->Delete(key).code(), StatusCode::kInvalidArgument) << key;
  }
}

TEST_P(ObjectStoreContract, StopsWhenTold) {
  stop_.request_stop();
  EXPECT_EQ(store_->PutBytes("a", "x").code(), StatusCode::kCancelled);
  EXPECT_EQ(store_->Head("a").status().code(), StatusCode::kCancelled);
  EXPECT_EQ(store_->List("").status().code(), StatusCode::kCancelled);
}

class S3ObjectStoreTest : public ::testing::Test {
 protected:
  std::uint64_t Requests(const std::string& method) {
    return nlohmann::json::parse(server_.Tell("counts"))["requests"].value(method, 0u);
  }
  std::uint64_t UnfinishedUploads() {
    return nlohmann::json::parse(server_.Tell("counts"))["uploads"];
  }

  TemporaryFolder folder_;
  S3Server server_;
};

TEST_F(S3ObjectStoreTest, ASessionTokenIsSigned) {
  S3Server server({"--token", "a/token+of=many", "--secret", "wJalrXUtnFEMI/K7MDENG"});
  ObjectStoreOptions options = S3Options(server);
  options.credentials = {"key", "wJalrXUtnFEMI/K7MDENG", "a/token+of=many"};
  EXPECT_TRUE(MustOpen(options)->PutBytes("a", "x").ok());
  options.credentials.session_token = "another";
  EXPECT_EQ(MustOpen(options)->PutBytes("a", "x").code(), StatusCode::kPermissionDenied);
}

TEST_F(S3ObjectStoreTest, AWrongKeyIsNamedAtOnce) {
  ObjectStoreOptions options = S3Options(server_);
  options.credentials.secret_key = "wrong";
  const Status wrong = MustOpen(options)->PutBytes("a", "x");
  EXPECT_EQ(wrong.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(wrong.message(), HasSubstr("SignatureDoesNotMatch"));
  EXPECT_THAT(wrong.message(), HasSubstr("AWS_SECRET_ACCESS_KEY"));
  EXPECT_EQ(Requests("PUT"), 1u);
  options.credentials = {};
  EXPECT_THAT(MustOpen(options)->PutBytes("a", "x").message(), HasSubstr("are not set"));
}

TEST_F(S3ObjectStoreTest, AnotherRegionAndAMissingBucketAreNamed) {
  ObjectStoreOptions options = S3Options(server_);
  options.region = "eu-west-1";
  const Status region = MustOpen(options)->PutBytes("a", "x");
  EXPECT_EQ(region.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(region.message(), HasSubstr("the bucket's region is us-east-1"));
  options = S3Options(server_);
  options.address = "s3://another-bucket/x";
  const auto listed = MustOpen(options)->List("");
  EXPECT_EQ(listed.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(listed.status().message(), HasSubstr("make the bucket first"));
}

TEST_F(S3ObjectStoreTest, WhatPassesIsTriedAgain) {
  const auto store = MustOpen(S3Options(server_));
  ASSERT_TRUE(store->PutBytes("a", "0123456789").ok());
  for (const char* kind : {"503", "500", "429", "cut"}) {
    server_.Tell(std::string("fail ") + kind + " 2 PUT");
    EXPECT_TRUE(store->PutBytes("a", "abcdefghij").ok()) << kind;
    server_.Tell(std::string("fail ") + kind + " 2 GET");
    EXPECT_EQ(store->Get("a", 0, 10).value(), "abcdefghij") << kind;
    server_.Tell(std::string("fail ") + kind + " 1 DELETE");
    EXPECT_TRUE(store->Delete("none").ok()) << kind;
  }
}

TEST_F(S3ObjectStoreTest, AServerThatStandsStillIsAskedAgain) {
  ObjectStoreOptions options = S3Options(server_);
  options.stall = std::chrono::seconds(1);
  const auto store = MustOpen(options);
  server_.Tell("fail hang 1");
  const Status put = store->PutBytes("a", "x");
  EXPECT_TRUE(put.ok()) << put.ToString();
  options.tries = 1;
  server_.Tell("fail hang 1");
  EXPECT_EQ(MustOpen(options)->Head("a").status().code(), StatusCode::kUnavailable);
}

TEST_F(S3ObjectStoreTest, ItGivesUpInTheEndAndWaitsLongerEachTime) {
  ObjectStoreOptions options = S3Options(server_);
  std::vector<Duration> waits;
  options.wait = [&](Duration duration) { waits.push_back(duration); };
  options.tries = 8;
  server_.Tell("fail 503 100 PUT");
  const Status status = MustOpen(options)->PutBytes("a", "x");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("503 SlowDown (please reduce your rate)"));
  EXPECT_EQ(Requests("PUT"), 8u);
  ASSERT_EQ(waits.size(), 7u);
  EXPECT_EQ(waits[0], std::chrono::milliseconds(200));
  EXPECT_EQ(waits[3], std::chrono::milliseconds(1600));
  EXPECT_EQ(waits[6], std::chrono::seconds(10));
}

TEST_F(S3ObjectStoreTest, AServerThatIsGoneIsUnavailable) {
  ObjectStoreOptions options = S3Options(server_);
  options.endpoint = "http://127.0.0.1:1";
  EXPECT_EQ(MustOpen(options)->Head("a").status().code(), StatusCode::kUnavailable);
}

TEST_F(S3ObjectStoreTest, PartsAreSentAgainAlone) {
  const auto store = MustOpen(S3Options(server_));
  const std::string bytes = Bytes(4500);
  server_.Tell("fail cut 1 PUT");
  server_.Tell("fail 503 2 PUT");
  const Status put = store->PutFile("blobs/big", WriteFile(folder_, bytes));
  ASSERT_TRUE(put.ok()) << put.ToString();
  EXPECT_EQ(store->Get("blobs/big", 0, 5000).value(), bytes);
  EXPECT_EQ(Requests("PUT"), 5u + 2u);  // the one that was cut never came whole
  EXPECT_EQ(UnfinishedUploads(), 0u);
}

TEST_F(S3ObjectStoreTest, AJoinIsTriedAgain) {
  const auto store = MustOpen(S3Options(server_));
  for (const char* kind : {"503", "join", "lost"}) {
    const std::string bytes = Bytes(2500 + std::string(kind).size());
    server_.Tell(std::string("fail ") + kind + " 1 POST?uploadId");
    const Status put = store->PutFile("blobs/big", WriteFile(folder_, bytes));
    ASSERT_TRUE(put.ok()) << kind << put.ToString();
    EXPECT_EQ(store->Get("blobs/big", 0, 5000).value(), bytes) << kind;
    EXPECT_EQ(UnfinishedUploads(), 0u);
  }
}

TEST_F(S3ObjectStoreTest, AnUploadOfPartsThatFailsIsTakenBack) {
  ObjectStoreOptions options = S3Options(server_);
  options.tries = 2;
  server_.Tell("fail 503 2 PUT");
  EXPECT_EQ(MustOpen(options)->PutFile("big", WriteFile(folder_, Bytes(4500))).code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(UnfinishedUploads(), 0u);
  EXPECT_EQ(Requests("DELETE"), 1u);
}

TEST_F(S3ObjectStoreTest, ListsInPagesAndSkipsForeignNames) {
  const auto store = MustOpen(S3Options(server_));
  for (int i = 0; i < 7; ++i) {
    ASSERT_TRUE(store->PutBytes("m/" + std::to_string(i), "x").ok());
  }
  server_.Tell("put runs/first/m/odd&<name> x");
  server_.Tell("put runs/firstborn/m/1 x");
  server_.Tell("page 2");
  const auto listed = store->List("m/");
  ASSERT_TRUE(listed.ok()) << listed.status().ToString();
  ASSERT_EQ(listed->size(), 7u);
  EXPECT_EQ(listed->back().key, "m/6");
}

TEST_F(S3ObjectStoreTest, AStopEndsTheWaiting) {
  std::stop_source stop;
  ObjectStoreOptions options = S3Options(server_);
  options.stop = stop.get_token();
  options.wait = [&](Duration) { stop.request_stop(); };
  server_.Tell("fail 503 100");
  EXPECT_EQ(MustOpen(options)->PutBytes("a", "x").code(), StatusCode::kCancelled);
}

// A key and a certificate for 127.0.0.1, signed by itself.
void WriteCertificate(const std::string& certificate_path, const std::string& key_path) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* const name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_EXTENSION* const address =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
  X509_add_ext(certificate, address, -1);
  X509_sign(certificate, key, EVP_sha256());
  std::FILE* file = std::fopen(certificate_path.c_str(), "w");
  PEM_write_X509(file, certificate);
  std::fclose(file);
  file = std::fopen(key_path.c_str(), "w");
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  X509_EXTENSION_free(address);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

TEST_F(S3ObjectStoreTest, OnlyATrustedCertificateWillDo) {
  WriteCertificate(folder_ / "cert.pem", folder_ / "key.pem");
  S3Server server({"--tls", folder_ / "cert.pem", folder_ / "key.pem"});
  ObjectStoreOptions options = S3Options(server);
  options.endpoint = "https://127.0.0.1:" + server.port();
  options.tries = 1;
  EXPECT_EQ(MustOpen(options)->PutBytes("a", "x").code(), StatusCode::kUnauthenticated);
  options.ca_file = folder_ / "cert.pem";
  const Status put = MustOpen(options)->PutBytes("a", "x");
  EXPECT_TRUE(put.ok()) << put.ToString();
  options.endpoint = "https://localhost:" + server.port();  // not in the certificate
  EXPECT_EQ(MustOpen(options)->PutBytes("a", "x").code(), StatusCode::kUnauthenticated);
}

}  // namespace
}  // namespace shoal::net
