#include "common/status.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace shoal {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return "ok";
    case StatusCode::kCancelled: return "cancelled";
    case StatusCode::kUnknown: return "unknown";
    case StatusCode::kInvalidArgument: return "invalid argument";
    case StatusCode::kDeadlineExceeded: return "deadline exceeded";
    case StatusCode::kNotFound: return "not found";
    case StatusCode::kAlreadyExists: return "already exists";
    case StatusCode::kPermissionDenied: return "permission denied";
    case StatusCode::kResourceExhausted: return "resource exhausted";
    case StatusCode::kFailedPrecondition: return "failed precondition";
    case StatusCode::kAborted: return "aborted";
    case StatusCode::kOutOfRange: return "out of range";
    case StatusCode::kUnimplemented: return "unimplemented";
    case StatusCode::kInternal: return "internal";
    case StatusCode::kUnavailable: return "unavailable";
    case StatusCode::kDataLoss: return "data loss";
    case StatusCode::kUnauthenticated: return "unauthenticated";
  }
  return "unknown";
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  return Status(code_, std::string(context) + ": " + message_);
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  return std::string(StatusCodeName(code_)) + ": " + message_;
}

#define SHOAL_STATUS_FACTORY(name) \
  Status name(std::string message) { return Status(StatusCode::k##name, std::move(message)); }
SHOAL_STATUS_FACTORY(InvalidArgument)
SHOAL_STATUS_FACTORY(NotFound)
SHOAL_STATUS_FACTORY(AlreadyExists)
SHOAL_STATUS_FACTORY(PermissionDenied)
SHOAL_STATUS_FACTORY(ResourceExhausted)
SHOAL_STATUS_FACTORY(FailedPrecondition)
SHOAL_STATUS_FACTORY(Aborted)
SHOAL_STATUS_FACTORY(OutOfRange)
SHOAL_STATUS_FACTORY(Unimplemented)
SHOAL_STATUS_FACTORY(Internal)
SHOAL_STATUS_FACTORY(Unavailable)
SHOAL_STATUS_FACTORY(DataLoss)
SHOAL_STATUS_FACTORY(DeadlineExceeded)
SHOAL_STATUS_FACTORY(Cancelled)
SHOAL_STATUS_FACTORY(Unauthenticated)
#undef SHOAL_STATUS_FACTORY

Status FromErrno(int error_number, std::string_view what) {
  std::string message = std::string(what) + ": " + std::strerror(error_number);
  switch (error_number) {
    case ENOENT:
    case ENOTDIR: return NotFound(std::move(message));
    case EEXIST: return AlreadyExists(std::move(message));
    case EACCES:
    case EROFS:
    case EPERM: return PermissionDenied(std::move(message));
    case ENOSPC:
    case EDQUOT: return ResourceExhausted(message + "; free some space or use another disk");
    case EMFILE:
    case ENOMEM: return ResourceExhausted(std::move(message));
    case EADDRINUSE: return FailedPrecondition(std::move(message));
    default: return Unavailable(std::move(message));
  }
}

namespace internal {
void CheckFailed(const char* file, int line, const char* expression) {
  std::fprintf(stderr, "shoal: internal error: %s:%d: %s does not hold\n", file, line, expression);
  std::abort();
}
}  // namespace internal

}  // namespace shoal
