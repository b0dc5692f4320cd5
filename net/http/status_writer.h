// Writes a status as JSON and as metrics, in the order and by the rows of its table. Thread: any.

#ifndef SHOAL_NET_HTTP_STATUS_WRITER_H_
#define SHOAL_NET_HTTP_STATUS_WRITER_H_

#include <string>

#include "net/http/metric_families.h"
#include "net/http/status_fields.h"
#include "net/http/status_value.h"

namespace shoal::net {

// A value without a row is a bug; a row without a value is left out. Text that is not UTF-8 and
// numbers that are not finite still give JSON.
std::string StatusText(const FieldNode& tree, const StatusObject& status);
// What the rows with metrics hold.
void AddMetrics(const FieldNode& tree, const StatusObject& status, MetricFamilies* out);

}  // namespace shoal::net

#endif  // SHOAL_NET_HTTP_STATUS_WRITER_H_
