#include "common/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

namespace shoal {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST(StatusTest, DefaultIsOk) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.ToString(), "ok");
  EXPECT_TRUE(Status::Ok().ok());
}

TEST(StatusTest, FactoriesSetTheCode) {
  const std::vector<std::pair<Status, std::string>> all = {
      {Cancelled("x"), "cancelled: x"},
      {InvalidArgument("x"), "invalid argument: x"},
      {DeadlineExceeded("x"), "deadline exceeded: x"},
      {NotFound("x"), "not found: x"},
      {AlreadyExists("x"), "already exists: x"},
      {PermissionDenied("x"), "permission denied: x"},
      {ResourceExhausted("x"), "resource exhausted: x"},
      {FailedPrecondition("x"), "failed precondition: x"},
      {Aborted("x"), "aborted: x"},
      {OutOfRange("x"), "out of range: x"},
      {Unimplemented("x"), "unimplemented: x"},
      {Internal("x"), "internal: x"},
      {Unavailable("x"), "unavailable: x"},
      {DataLoss("x"), "data loss: x"},
      {Unauthenticated("x"), "unauthenticated: x"},
  };
  for (const auto& [status, text] : all) {
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.message(), "x");
    EXPECT_EQ(status.ToString(), text);
  }
}

// The wire mapping is one cast, so the numbers are part of the protocol.
TEST(StatusTest, CodesAreThoseOfGrpc) {
  EXPECT_EQ(static_cast<int>(StatusCode::kCancelled), 1);
  EXPECT_EQ(static_cast<int>(StatusCode::kInvalidArgument), 3);
  EXPECT_EQ(static_cast<int>(StatusCode::kNotFound), 5);
  EXPECT_EQ(static_cast<int>(StatusCode::kResourceExhausted), 8);
  EXPECT_EQ(static_cast<int>(StatusCode::kAborted), 10);
  EXPECT_EQ(static_cast<int>(StatusCode::kUnavailable), 14);
  EXPECT_EQ(static_cast<int>(StatusCode::kUnauthenticated), 16);
}

TEST(StatusTest, UnknownCodesHaveAName) {
  EXPECT_EQ(StatusCodeName(static_cast<StatusCode>(99)), "unknown");
}

TEST(StatusTest, ContextGoesInFrontOfFailuresOnly) {
  EXPECT_EQ(NotFound("gone").WithContext("load").WithContext("start").ToString(),
            "not found: start: load: gone");
  EXPECT_TRUE(Status::Ok().WithContext("load").ok());
}

TEST(StatusTest, ErrnoKeepsItsMeaning) {
  EXPECT_EQ(FromErrno(ENOENT, "open a").code(), StatusCode::kNotFound);
  EXPECT_THAT(FromErrno(ENOENT, "open a").message(), StartsWith("open a: "));
  EXPECT_EQ(FromErrno(EEXIST, "a").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(FromErrno(EACCES, "a").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(FromErrno(EADDRINUSE, "a").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(FromErrno(EMFILE, "a").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(FromErrno(EIO, "a").code(), StatusCode::kUnavailable);
}

TEST(StatusTest, DiskFullSaysWhatToDo) {
  const Status status = FromErrno(ENOSPC, "write a");
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("No space left on device"));
  EXPECT_THAT(status.message(), EndsWith("free some space or use another disk"));
}

Status Fail(bool fail) { return fail ? Aborted("no") : Status::Ok(); }

Status ReturnIfError(bool fail, bool* reached) {
  SHOAL_RETURN_IF_ERROR(Fail(fail));
  *reached = true;
  return Status::Ok();
}

TEST(StatusTest, ReturnIfErrorReturnsOnFailureOnly) {
  bool reached = false;
  EXPECT_EQ(ReturnIfError(true, &reached).code(), StatusCode::kAborted);
  EXPECT_FALSE(reached);
  EXPECT_TRUE(ReturnIfError(false, &reached).ok());
  EXPECT_TRUE(reached);
}

Result<std::unique_ptr<int>> MakeInt(int value) {
  if (value < 0) return OutOfRange("negative");
  return std::make_unique<int>(value);
}

Result<int> Sum(int a, int b) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<int> x, MakeInt(a));
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<int> y, MakeInt(b));
  return *x + *y;
}

TEST(ResultTest, CarriesAMoveOnlyValueOrTheFailure) {
  EXPECT_EQ(Sum(1, 2).value(), 3);
  EXPECT_TRUE(Sum(1, 2).status().ok());
  EXPECT_FALSE(Sum(1, -2).ok());
  EXPECT_EQ(Sum(-1, 2).status().code(), StatusCode::kOutOfRange);
  Result<std::string> text = std::string("abc");
  EXPECT_EQ(text->size(), 3u);
  *text += "d";
  EXPECT_EQ(std::move(text).value(), "abcd");
}

TEST(ResultDeathTest, MisuseAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(static_cast<void>(MakeInt(-1).value()), "internal error: .*does not hold");
  EXPECT_DEATH(static_cast<void>(Result<int>(Status::Ok())), "does not hold");
  EXPECT_DEATH(SHOAL_CHECK(1 == 2), "1 == 2 does not hold");
}

}  // namespace
}  // namespace shoal
