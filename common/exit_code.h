// Exit codes of all shoal programs, documented in docs/OPERATIONS.md.

#ifndef SHOAL_COMMON_EXIT_CODE_H_
#define SHOAL_COMMON_EXIT_CODE_H_

#include "common/status.h"

namespace shoal {

enum class ExitCode : int {
  kOk = 0,
  kFailure = 1,
  kUsage = 2,
  kDaemonNotRunning = 3,
  kNotMember = 4,  // of a swarm
  kUnreachable = 69,
  kTryLater = 75,  // what is missing may come back: a service manager starts the program again
  kPermission = 77,
  kBadConfig = 78,
};

// What a program that ends because of `status` returns, where the caller knows nothing better.
inline ExitCode ExitCodeFor(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk: return ExitCode::kOk;
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnauthenticated: return ExitCode::kPermission;
    case StatusCode::kInvalidArgument: return ExitCode::kBadConfig;
    default: return ExitCode::kFailure;
  }
}

// The same while a program reads what people bring (settings, model, data): what is missing or
// wrong there is the configuration's fault.
inline ExitCode ExitCodeForInput(const Status& status) {
  switch (status.code()) {
    case StatusCode::kNotFound:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kUnimplemented:
    case StatusCode::kOutOfRange:
    case StatusCode::kDataLoss: return ExitCode::kBadConfig;
    default: return ExitCodeFor(status);
  }
}

}  // namespace shoal

#endif  // SHOAL_COMMON_EXIT_CODE_H_
