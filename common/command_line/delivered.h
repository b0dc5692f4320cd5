// What a program printed may not have arrived: on a full disk, for example.

#ifndef SHOAL_COMMON_COMMAND_LINE_DELIVERED_H_
#define SHOAL_COMMON_COMMAND_LINE_DELIVERED_H_

#include "common/exit_code.h"

namespace shoal {

// `code`, or a failure that standard error names if all went well but for standard output.
ExitCode Delivered(ExitCode code);

}  // namespace shoal

#endif  // SHOAL_COMMON_COMMAND_LINE_DELIVERED_H_
