// tiled: a block's tile of c in registers, its parts of a and b through shared memory, or each element by itself.
//
// Thread -> output: block (x, y) owns TILE_M x TILE_N elements of c. Its BLOCK_X * BLOCK_Y threads own THREAD_M x THREAD_N
// of them each, BLOCK_Y rows and BLOCK_X columns apart, so that neighbours write neighbours. With TILE_M=64, TILE_N=64 and
// 16x16 threads that is 4 x 4 sums a thread, and 16 multiply-adds for each 8 words read from shared memory.
//
// Parameters
//   STAGING   none: a and b from global memory; shared: TILE_K columns of a and rows of b at a time
//   BLOCK_SHAPE, TILE_M, TILE_N, TILE_K   as above        UNROLL   steps of k unrolled
// Constraints, sizes and launch: in tiled.py.

#define SHARED_WORDS (TILE_M * (TILE_K + 1) + TILE_K * TILE_N)

__global__ void __launch_bounds__(THREADS)
gemm(GLOBAL const float *__restrict__ a, GLOBAL const float *__restrict__ b, GLOBAL float *__restrict__ c, int M, int N_arg,
     int K_arg)
{
    const int row = blockIdx.y * TILE_M + threadIdx.y, column = blockIdx.x * TILE_N + threadIdx.x;
    float sums[THREAD_M][THREAD_N];
    UNROLLED(THREAD_M)
    for (int i = 0; i < THREAD_M; i++)
        UNROLLED(THREAD_N)
        for (int j = 0; j < THREAD_N; j++)
            sums[i][j] = 0.0f;

#if STAGING == STAGING_SHARED
    SHARED_MEMORY(float, staged, SHARED_WORDS);
#define a_staged staged
#define b_staged (staged + TILE_M * (TILE_K + 1))
    const int thread = threadIdx.y * BLOCK_X + threadIdx.x;
    for (int first = 0; first < SIZE_K; first += TILE_K) {
        for (int i = thread; i < TILE_M * TILE_K; i += THREADS) {
            const int m = blockIdx.y * TILE_M + i / TILE_K, k = first + i % TILE_K;
            a_staged[i / TILE_K * (TILE_K + 1) + i % TILE_K] = m < M && k < SIZE_K ? a[(size_t)m * SIZE_K + k] : 0.0f;
        }
        for (int i = thread; i < TILE_K * TILE_N; i += THREADS) {
            const int k = first + i / TILE_N, n = blockIdx.x * TILE_N + i % TILE_N;
            b_staged[i] = k < SIZE_K && n < SIZE_N ? b[(size_t)k * SIZE_N + n] : 0.0f;
        }
        __syncthreads();
        UNROLLED(UNROLL)
        for (int k = 0; k < TILE_K; k++) {
            float of_a[THREAD_M];
            UNROLLED(THREAD_M)
            for (int i = 0; i < THREAD_M; i++)
                of_a[i] = a_staged[(threadIdx.y + i * BLOCK_Y) * (TILE_K + 1) + k];
            UNROLLED(THREAD_N)
            for (int j = 0; j < THREAD_N; j++) {
                const float of_b = b_staged[k * TILE_N + threadIdx.x + j * BLOCK_X];
                UNROLLED(THREAD_M)
                for (int i = 0; i < THREAD_M; i++)
                    sums[i][j] = fmaf(of_a[i], of_b, sums[i][j]);
            }
        }
        __syncthreads();   // before the next part overwrites this one
    }
#else
    UNROLLED(UNROLL)
    for (int k = 0; k < SIZE_K; k++)
        UNROLLED(THREAD_M)
        for (int i = 0; i < THREAD_M; i++)
            UNROLLED(THREAD_N)
            for (int j = 0; j < THREAD_N; j++)
                if (row + i * BLOCK_Y < M && column + j * BLOCK_X < SIZE_N)
                    sums[i][j] = fmaf(a[(size_t)(row + i * BLOCK_Y) * SIZE_K + k],
                                      b[(size_t)k * SIZE_N + column + j * BLOCK_X], sums[i][j]);
#endif

    UNROLLED(THREAD_M)
    for (int i = 0; i < THREAD_M; i++)
        UNROLLED(THREAD_N)
        for (int j = 0; j < THREAD_N; j++)
            if (row + i * BLOCK_Y < M && column + j * BLOCK_X < SIZE_N)
                c[(size_t)(row + i * BLOCK_Y) * SIZE_N + column + j * BLOCK_X] = sums[i][j];
}
