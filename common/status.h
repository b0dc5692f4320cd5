// Status and Result<T>: how every shoal function reports an expected failure.
//
// Codes equal gRPC's, so that the wire mapping is one cast. Expected failures (peer, disk, config
// input) are values; SHOAL_CHECK is for our own bugs only and aborts.

#ifndef SHOAL_COMMON_STATUS_H_
#define SHOAL_COMMON_STATUS_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shoal {

enum class StatusCode : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// The lower-case name of a code, e.g. "not found".
std::string_view StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return Status(); }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same failure with "context: " before its message; OK stays OK.
  Status WithContext(std::string_view context) const;

  // "invalid argument: <message>", or "ok".
  std::string ToString() const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

Status InvalidArgument(std::string message);
Status NotFound(std::string message);
Status AlreadyExists(std::string message);
Status PermissionDenied(std::string message);
Status ResourceExhausted(std::string message);
Status FailedPrecondition(std::string message);
Status Aborted(std::string message);
Status OutOfRange(std::string message);
Status Unimplemented(std::string message);
Status Internal(std::string message);
Status Unavailable(std::string message);
Status DataLoss(std::string message);
Status DeadlineExceeded(std::string message);
Status Cancelled(std::string message);
Status Unauthenticated(std::string message);

// The failure that errno `error_number` stands for; `what` names the operation and its object.
Status FromErrno(int error_number, std::string_view what);

namespace internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* expression);
}  // namespace internal

// Aborts with file, line and expression. For our own bugs only, never for input.
#define SHOAL_CHECK(expression)                                        \
  do {                                                                 \
    if (!(expression)) [[unlikely]]                                    \
      ::shoal::internal::CheckFailed(__FILE__, __LINE__, #expression); \
  } while (false)

// Either a T or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit on purpose
    SHOAL_CHECK(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // The value; ok() must hold.
  T& value() & {
    SHOAL_CHECK(ok());
    return *value_;
  }
  const T& value() const& {
    SHOAL_CHECK(ok());
    return *value_;
  }
  T&& value() && {
    SHOAL_CHECK(ok());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

#define SHOAL_CONCAT_INNER(a, b) a##b
#define SHOAL_CONCAT(a, b) SHOAL_CONCAT_INNER(a, b)

#define SHOAL_RETURN_IF_ERROR(expression)                                                        \
  do {                                                                                           \
    if (::shoal::Status shoal_status_ = (expression); !shoal_status_.ok()) return shoal_status_; \
  } while (false)

// SHOAL_ASSIGN_OR_RETURN(auto x, Compute());
#define SHOAL_ASSIGN_OR_RETURN(target, expression) \
  SHOAL_ASSIGN_OR_RETURN_IMPL(SHOAL_CONCAT(shoal_result_, __LINE__), target, expression)
#define SHOAL_ASSIGN_OR_RETURN_IMPL(result, target, expression) \
  auto result = (expression);                                   \
  if (!result.ok()) return result.status();                     \
  target = std::move(result).value()

}  // namespace shoal

#endif  // SHOAL_COMMON_STATUS_H_
