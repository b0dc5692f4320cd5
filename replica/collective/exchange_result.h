// How an exchange tells what became of a round: in a task of its own on control, and not at all
// once the exchange is gone. Internal to collective/. Thread: control.

#ifndef SHOAL_REPLICA_COLLECTIVE_EXCHANGE_RESULT_H_
#define SHOAL_REPLICA_COLLECTIVE_EXCHANGE_RESULT_H_

#include <functional>
#include <memory>
#include <utility>

#include "common/memory/buffer.h"
#include "common/status.h"
#include "common/task_scope.h"

namespace shoal::collective {

// `scope` lives as long as the exchange, not as the round.
inline void PostResult(TaskScope* scope, std::function<void(Result<Buffer>)> done,
                       Result<Buffer> result) {
  // Shared, because tasks must be copyable.
  auto held = std::make_shared<Result<Buffer>>(std::move(result));
  scope->Post("exchange.done", [held, done = std::move(done)] { done(std::move(*held)); });
}

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_EXCHANGE_RESULT_H_
