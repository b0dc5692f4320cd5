// shoald: the peer daemon.

#include "daemon/program/shoald.h"
#include "model/stage_model.h"

int main(int argc, char** argv) {
  return shoal::daemon::RunShoald(argc, argv, shoal::model::NewTorchStage);
}
