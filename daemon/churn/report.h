// What `shoal bench churn` prints. Pure. Thread: any.

#ifndef SHOAL_DAEMON_CHURN_REPORT_H_
#define SHOAL_DAEMON_CHURN_REPORT_H_

#include <string>

#include "daemon/churn/simulation.h"
#include "daemon/churn/trace.h"
#include "daemon/churn/trained_model.h"

namespace shoal::daemon {

struct ChurnReport {
  std::string trace;  // the file's name, or what was made
  double factor = 1;
  ChurnSettings settings;
  TrainedModel model;
  double whole_pipelines = 0;
  ChurnResult result;
};

std::string FormatChurn(const ChurnReport& report);
// One JSON object; fields in docs/BENCHMARKS.md.
std::string FormatChurnJson(const ChurnReport& report);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_CHURN_REPORT_H_
