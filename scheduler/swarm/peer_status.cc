#include "scheduler/swarm/peer_status.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/nesting.h"
#include "common/text.h"
#include "scheduler/swarm/peer_message_check.h"

namespace shoal::scheduler {
namespace {

using Json = nlohmann::ordered_json;

// A field of each type stands for all of that type: "" text, 0 a number, a list has items like its
// one item, an object has fields like these. What may be null in the status may be null anywhere.
constexpr const char* kFields = R"({
"schemaVersion": 0, "program": "", "version": "", "peerId": "", "name": "", "state": "",
"stateReasons": [""], "since": 0, "time": 0,
"scheduler": {"connected": true, "addresses": [""], "trouble": ""},
"swarm": {"id": "", "name": "", "state": "", "reason": "", "step": 0, "targetStep": 0, "epochs": 0,
  "targetEpochs": 0, "loss": 0, "losses": [[0]], "peersUp": 0, "peersTotal": 0},
"role": {"stage": 0, "stages": 0, "pipeline": 0, "pipelines": 0, "layers": [0], "generation": 0,
  "forwardCodec": "", "backwardCodec": "", "replicaMethod": "", "lan": [0]},
"device": "", "bench": {"valuesCpuMs": 0},
"memory": {"stateBytes": 0, "shardBytes": 0, "unitPeakBytes": 0, "residentPeakBytes": 0,
  "microBatchBytes": 0},
"fetch": {"doneBytes": 0, "totalBytes": 0},
"work": {"step": 0, "forwards": 0, "backwards": 0, "microBatches": 0, "schedule": "",
  "inFlightMax": 0, "pendingWeightsMax": 0, "memoryMaxBytes": 0, "simulatedMs": 0, "unlimitedMs": 0,
  "samplesPerSecond": 0, "encodeMs": 0, "decodeMs": 0, "storeMs": 0,
  "time": [{"activity": "", "ms": 0}]},
"links": [{"peer": "", "name": "", "channel": "", "kind": "", "address": "", "connected": true,
  "connections": 0, "rttMs": 0, "rttMinMs": 0, "upBps": 0, "downBps": 0, "upCapBps": 0,
  "downCapBps": 0, "sentWireBytes": 0, "receivedWireBytes": 0, "sentFrames": 0, "receivedFrames": 0,
  "queueBytes": 0, "stallRateLimitMs": 0, "stallNetworkMs": 0, "sentRawBytes": 0,
  "sentPayloadBytes": 0, "receivedRawBytes": 0, "receivedPayloadBytes": 0, "ratio": 0}],
"boundaries": [{"boundary": 0, "side": "", "mode": "", "relativeDelta": 0, "lastRelativeDelta": 0,
  "forwardError": 0, "lastForwardError": 0, "backwardError": 0, "lastBackwardError": 0,
  "firstVisitPart": 0, "lastFirstVisitPart": 0, "deltaHits": 0, "firstVisits": 0, "resends": 0,
  "lowRank": {"messages": 0, "part": 0, "bitsPerValue": 0, "otherBitsPerValue": 0,
    "correlation": 0, "lazy": true}}],
"traffic": {
  "forward": {"wireSentBytes": 0, "rawSentBytes": 0, "wireReceivedBytes": 0,
    "rawReceivedBytes": 0, "ratio": 0},
  "backward": {"wireSentBytes": 0, "rawSentBytes": 0, "wireReceivedBytes": 0,
    "rawReceivedBytes": 0, "ratio": 0},
  "replica": {"wireSentBytes": 0, "rawSentBytes": 0, "wireReceivedBytes": 0,
    "rawReceivedBytes": 0, "ratio": 0},
  "control": {"wireSentBytes": 0, "wireReceivedBytes": 0, "artefactSentBytes": 0,
    "artefactReceivedBytes": 0},
  "linkSentWireBytes": 0, "linkReceivedWireBytes": 0, "sentWireBytes": 0, "receivedWireBytes": 0},
"limits": {"upBps": 0, "downBps": 0}, "pacing": {"mode": "", "lineBps": 0, "upBps": 0},
"deltaStore": {"bytes": 0, "limit": 0, "records": 0, "hits": 0, "misses": 0, "corrupt": 0,
  "evicted": 0, "lost": 0, "diskBytes": 0, "diskWrittenBytes": 0, "committedBytes": 0,
  "memoryBytes": 0, "memoryLimit": 0, "prefetchedBytes": 0, "stagedBytes": 0, "trouble": "",
  "notice": "", "deltaHits": 0, "firstVisits": 0, "resends": 0, "expectedBytes": 0,
  "expectedDiskBytes": 0, "sampleBytes": 0, "residualSampleBytes": 0, "diskFreeBytes": 0,
  "boundaries": [{"boundary": 0, "side": "", "checksum": "", "records": 0}]},
"cacheBytes": 0, "contribution": {"microBatches": 0},
"health": [{"code": "", "severity": "", "text": "", "fix": ""}]
})";

// `value` as a field like `like`; discarded if it is of another type. Depth: that of `like`.
Json Fit(const Json& value, const Json& like) {
  if (value.is_null()) return nullptr;
  Json fitted(Json::value_t::discarded);
  if (like.is_string() && value.is_string()) {
    fitted = CleanText(value.get_ref<const std::string&>(), kStatusCharactersMax);
  } else if (like.is_number() && value.is_number()) {
    if (std::isfinite(value.get<double>())) fitted = value;
  } else if (like.is_boolean() && value.is_boolean()) {
    fitted = value;
  } else if (like.is_array() && value.is_array()) {
    fitted = Json::array();
    for (const Json& item : value) {
      if (fitted.size() == kStatusItemsMax) break;
      if (Json one = Fit(item, like[0]); !one.is_discarded()) fitted.push_back(std::move(one));
    }
  } else if (like.is_object() && value.is_object()) {
    fitted = Json::object();
    for (const auto& [name, kind] : like.items()) {
      const auto found = value.find(name);
      if (found == value.end()) continue;
      if (Json one = Fit(*found, kind); !one.is_discarded()) fitted[name] = std::move(one);
    }
  }
  return fitted;
}

}  // namespace

Result<std::string> FitPeerStatus(std::string_view json) {
  static const Json like = ParseJson<Json>(kFields);
  const Json status = ParseJson<Json>(json, kStatusDepthMax);
  if (!status.is_object()) {
    return InvalidArgument("malformed message: status_json is no JSON object, or nests too deep");
  }
  return Fit(status, like).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace shoal::scheduler
