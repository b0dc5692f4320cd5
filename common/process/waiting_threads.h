// Lets the threads of LibTorch's OpenMP runtime sleep while they wait.

#ifndef SHOAL_COMMON_PROCESS_WAITING_THREADS_H_
#define SHOAL_COMMON_PROCESS_WAITING_THREADS_H_

namespace shoal {

// By default waiting OpenMP threads spin. On a machine that does something else, too, spinning
// takes the cores from the very threads that are waited for. Two peers on two busy cores made 5
// times fewer samples per second. The runtime reads its settings before main, so this starts the
// program anew with OMP_WAIT_POLICY=passive, unless the variable is set already. Call first in
// main.
void LetWaitingThreadsSleep(char** argv);

}  // namespace shoal

#endif  // SHOAL_COMMON_PROCESS_WAITING_THREADS_H_
