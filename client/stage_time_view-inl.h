// What a stage does with its time, in words: from the JSON of a peer's status. Internal to client/.
// Pure. Thread: any.

#ifndef SHOAL_CLIENT_STAGE_TIME_VIEW_INL_H_
#define SHOAL_CLIENT_STAGE_TIME_VIEW_INL_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client/status_text-inl.h"

namespace shoal::client {

struct StageTime {
  std::map<std::string, double> ms;  // by activity
  double total_ms = 0;

  double Percent(std::string_view activity) const;
};

StageTime StageTimeOf(const Json& status);
double ComputePercent(const StageTime& time);
// Two rows, for computing and waiting; none before anything was measured.
std::vector<Row> TimeRows(const Json& status);
// The longest wait in few words: "attic 18 %".
std::string LongestWait(const Json& status);
// The part of the stage's time in which a link had something to send.
std::string LinkBusy(const Json& link, const StageTime& time);

bool HasSchedule(const Json& status);
// Only the schedule zero-bubble lets W wait.
bool PutsWeightsOff(const Json& work);
// "6.3s, 6.2s without bounds": the simulated step; "" before anything was measured.
std::string SimulatedText(const Json& work);
// The schedule and its bounds, in a row; none before the first step.
std::vector<Row> ScheduleRows(const Json& status);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_STAGE_TIME_VIEW_INL_H_
