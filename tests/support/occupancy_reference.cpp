// NVIDIA's own occupancy calculator on lines of "major minor threads registers shared": prints the blocks of each.
#include <cstdio>
#include "cuda_occupancy.h"

int main()
{
    int major, minor, threads, registers, shared;
    while (scanf("%d %d %d %d %d", &major, &minor, &threads, &registers, &shared) == 5) {
        cudaOccDeviceProp card;
        card.computeMajor = major;
        card.computeMinor = minor;
        card.maxThreadsPerBlock = 1024;
        card.maxThreadsPerMultiprocessor = major == 8 && minor > 0 ? 1536 : 2048;
        card.regsPerBlock = card.regsPerMultiprocessor = 65536;
        card.warpSize = 32;
        card.sharedMemPerBlock = 48 << 10;
        card.sharedMemPerMultiprocessor = (major == 8 ? (minor == 0 ? 164 : 100) : 228) << 10;
        card.numSms = 132;
        card.sharedMemPerBlockOptin = card.sharedMemPerMultiprocessor - 1024;
        card.reservedSharedMemPerBlock = 1024;
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = 1024;
        kernel.numRegs = registers;
        kernel.sharedSizeBytes = 0;
        kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.maxDynamicSharedSizeBytes = shared;
        kernel.numBlockBarriers = 1;
        cudaOccDeviceState state;
        state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
        cudaOccResult result;
        cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &card, &kernel, &state, threads, shared);
        printf("%d\n", error ? -1 : result.activeBlocksPerMultiprocessor);
    }
}
