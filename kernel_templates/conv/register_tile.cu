// register_tile: a thread keeps TILE_H x TILE_W pixels of TILE_M channels in registers, so that each word of x and w
// read from shared memory serves many multiply-adds.
//
// Thread -> output: a task is TILE_H rows x TILE_W columns x TILE_M channels of one image. A block owns IMAGES images,
// ROWS output rows of each (0: all) and all groups of TILE_M channels (GRID_LAYOUT B,1,1) or one (B,M,1). Its tasks run
// along strips, then row tiles, images and groups, so that a warp shares its words of w and, where TILE_W is small,
// reads and writes neighbouring columns. Tiles need not divide the output: what hangs over is computed from whatever
// lies there, and not written. The words of x slide through a thread along the longer side of its tile.
// sp18/conv2, TILE 13x1x8: a filter column is 13*8*5 = 520 multiply-adds for 17 words of x and 40 of w (10 loads of 128
// bits, the same address in all lanes); an image has 26 strips x 2 row tiles x 2 groups = 104 tasks, 2 images have 208.
//
// Parameters
//   BLOCK_SHAPE  threads; where they are fewer than the tasks, each does several   MIN_BLOCKS  resident at once
//   CHANNELS     staged at once (0: all)        COPY_BY  through registers, or asynchronous (with CHANNELS: one ahead)
//   ROW_PITCH    of x in shared memory: packed, odd, or padded to the next multiple of 4 words, against bank conflicts
//   VECTOR       widest copy in words, where alignment allows      UNROLL   one direction of the filter, or all of it
//   X_READS      words of x slide through registers, or are read for each term, in the vectors of a CPU
//   WEIGHTS      read from shared memory as [c][p][q][m], or as they are from constant or global memory
// Constraints, sizes and launch: in register_tile.py.

#if WEIGHTS == WEIGHTS_SHARED
#define W_SPACE SHARED
#define W_ARGUMENT GLOBAL
#elif WEIGHTS == WEIGHTS_CONSTANT
WEIGHTS_IN_CONSTANT(WEIGHT_WORDS)
#define W_SPACE CONSTANT
#define W_ARGUMENT CONSTANT
#else
#define W_SPACE GLOBAL
#define W_ARGUMENT GLOBAL
#endif

// Copy channels c to c + STAGED_C of the block's images, row by row or as one run. Rows and images past the end: nothing.
__device__ __forceinline__ void stage_x(SHARED float *to, GLOBAL const float *x, int c, int images, int rows)
{
    for (int i = threadIdx.x; i < IMAGES * RUNS * (RUN / LOAD_WIDTH); i += THREADS) {
        const int run = i / (RUN / LOAD_WIDTH), at = i % (RUN / LOAD_WIDTH) * LOAD_WIDTH;
        const int image = run / RUNS, channel = run % RUNS / IN_ROWS, row = run % RUNS % IN_ROWS;
        SHARED float *target = to + image * STAGED_C * PLANE + run % RUNS * PITCH + at;
        GLOBAL const float *source = x + ((image * LAYER_C + c + channel) * LAYER_H + row) * LAYER_W + at;
        if (image < images && row < rows) {
            if (ASYNC_COPIES) COPY_ASYNC(LOAD_WIDTH, target, source);
            else COPY(LOAD_WIDTH, target, source);
        }
    }
}

// Copy the filters of channels c to c + STAGED_C, transposed: [m][c][p][q] becomes [c][p][q][m], M_WORDS a group.
__device__ __forceinline__ void stage_w(SHARED float *to, GLOBAL const float *w, int c, int filters)
{
    for (int i = threadIdx.x; i < BLOCK_GROUPS * TILE_M * STAGED_C * FILTER; i += THREADS) {
        const int m = i / (STAGED_C * FILTER), term = i % (STAGED_C * FILTER);
        SHARED float *target = to + term * W_PITCH + m / TILE_M * M_WORDS + m % TILE_M;
        GLOBAL const float *source = w + (m * LAYER_C + c) * FILTER + term;
        if (m < filters) {
            if (ASYNC_COPIES) COPY_ASYNC(1, target, source);
            else COPY(1, target, source);
        }
    }
}

// Add the staged channels' products to the sums. x: the tile's corner; w: staged, the group's first word, else its filter.
__device__ __forceinline__ void multiply(float *sums, SHARED const float *x, W_SPACE const float *w, int filters)
{
    UNROLLED(1)
    for (int c = 0; c < STAGED_C; c++)
        UNROLLED(UNROLL == UNROLL_FILTER ? LAYER_K : 1)
        for (int step = 0; step < LAYER_K; step++) {   // filter row p, or column q when x slides along H
#if X_READS == X_READS_SLIDE
            float x_read[READ_H * READ_W];
            UNROLLED(READ_H)
            for (int h = 0; h < READ_H; h++)
                UNROLLED(READ_W / X_WIDTH)
                for (int i = 0; i < READ_W; i += X_WIDTH)
                    COPY(X_WIDTH, &x_read[h * READ_W + i], &x[c * PLANE + h * PITCH + i + step * (SLIDE_H ? 1 : PITCH)]);
#define X_TERMS(h) (x_read + (SLIDE_H ? ((h) + slide) * READ_W : (h) * READ_W + slide))
#else
#define X_TERMS(h) (x + c * PLANE + ((h) + step) * PITCH + slide)
#endif
            UNROLLED(LAYER_K)
            for (int slide = 0; slide < LAYER_K; slide++) {
                const int term = c * FILTER + (SLIDE_H ? slide * LAYER_K + step : step * LAYER_K + slide);
#if WEIGHTS == WEIGHTS_SHARED && X_READS == X_READS_SLIDE
                float w_read[M_WORDS];
                UNROLLED(M_WORDS / M_WIDTH)
                for (int m = 0; m < M_WORDS; m += M_WIDTH)
                    COPY(M_WIDTH, &w_read[m], &w[term * W_PITCH + m]);
#define W_TERM(m) w_read[m]
#elif WEIGHTS == WEIGHTS_SHARED
#define W_TERM(m) w[term * W_PITCH + (m)]
#else
#define W_TERM(m) w[((m) < filters ? (m) : 0) * LAYER_C * FILTER + term]
#endif
                UNROLLED(TILE_H)
                for (int h = 0; h < TILE_H; h++)
                    UNROLLED(TILE_M)
                    for (int m = 0; m < TILE_M; m++)
                        MULTIPLY_ADD(TILE_W, sums + (h * TILE_M + m) * TILE_W, W_TERM(m), X_TERMS(h));
            }
        }
}

// Write the tile's sums, as far as it lies inside the output; y: the group's first channel of the image.
__device__ __forceinline__ void write_tile(GLOBAL float *y, const float *sums, int row, int column, int rows, int filters)
{
    UNROLLED(TILE_H)
    for (int h = 0; h < TILE_H; h++)
        UNROLLED(TILE_M)
        for (int m = 0; m < TILE_M; m++)
#if X_READS == X_READS_EACH   // whole vectors: the last strip begins earlier and repeats some columns
            if (row + h < rows && m < filters)
                COPY_ROW(TILE_W, &y[(m * H_OUT + row + h) * W_OUT + column], &sums[(h * TILE_M + m) * TILE_W]);
#else
            UNROLLED(TILE_W / Y_WIDTH)
            for (int i = 0; i < TILE_W; i += Y_WIDTH)
                if (row + h < rows && m < filters && column + i < W_OUT)
                    STREAM(Y_WIDTH, &y[(m * H_OUT + row + h) * W_OUT + column + i], &sums[(h * TILE_M + m) * TILE_W + i]);
#endif
}

__global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
conv_forward(GLOBAL const float *__restrict__ x, W_ARGUMENT const float *__restrict__ w, GLOBAL float *__restrict__ y,
             int B, int C_, int H_, int W_, int M_, int K_)   // all sizes but B are compile-time constants here
{
    SHARED_MEMORY(float, staged, SHARED_WORDS);
    float sums[SUMS];
    const int h_first = blockIdx.z * BLOCK_ROWS, m_first = LOOP_M ? 0 : blockIdx.y * TILE_M;
    const int images = B - blockIdx.x * IMAGES;   // left from the block's first on, in most blocks more than it owns
    const int block_rows = H_OUT - h_first < BLOCK_ROWS ? H_OUT - h_first : BLOCK_ROWS;
    x += (size_t)blockIdx.x * IMAGES * LAYER_C * LAYER_H * LAYER_W + h_first * LAYER_W;
    y += ((size_t)blockIdx.x * IMAGES * LAYER_M + m_first) * H_OUT * W_OUT + h_first * W_OUT;

// What a thread does in a round: the tile at (row, column) of an image, for a group of channels.
#define LOCATE(round)                                                                               \
    const int task = (round) * THREADS + threadIdx.x;                                               \
    const int group = task / GROUP_TASKS, image = task % GROUP_TASKS / IMAGE_TASKS;                 \
    const int row = task % IMAGE_TASKS / STRIPS * TILE_H, strip = task % STRIPS * TILE_W;           \
    const int column = X_READS == X_READS_EACH && strip > W_OUT - TILE_W ? W_OUT - TILE_W : strip;  \
    const int filters = LAYER_M % TILE_M ? LAYER_M - m_first - group * TILE_M : TILE_M
#define Y_TILE (y + (image * LAYER_M + group * TILE_M) * H_OUT * W_OUT)
#define X_BUFFER(n) (staged + (n) * X_WORDS)
#define W_BUFFER(n) (staged + STAGES * X_WORDS + OVERHANG + (n) * W_WORDS)
#define X_TILE(n) (X_BUFFER(n) + image * STAGED_C * PLANE + row * PITCH + column)
#if WEIGHTS == WEIGHTS_SHARED
#define W_TILE(n, c) (W_BUFFER(n) + group * M_WORDS)
#elif WEIGHTS == WEIGHTS_CONSTANT
#define W_TILE(n, c) (CONSTANT_WEIGHTS(w) + ((m_first + group * TILE_M) * LAYER_C + (c)) * FILTER)
#else
#define W_TILE(n, c) (w + ((m_first + group * TILE_M) * LAYER_C + (c)) * FILTER)
#endif
#if WEIGHTS == WEIGHTS_SHARED
#define STAGE(n, c)                                                                                 \
    stage_x(X_BUFFER(n), x, c, images, LAYER_H - h_first);                                          \
    stage_w(W_BUFFER(n), w + m_first * LAYER_C * FILTER, c, LAYER_M - m_first);                     \
    COPY_ASYNC_COMMIT()
#else
#define STAGE(n, c)                                                                                 \
    stage_x(X_BUFFER(n), x, c, images, LAYER_H - h_first);                                          \
    COPY_ASYNC_COMMIT()
#endif

#if CHANNELS == 0   // all channels are staged at once
    STAGE(0, 0);
    COPY_ASYNC_WAIT(0);
    __syncthreads();
    UNROLLED(1)
    for (int round = 0; round < ROUNDS; round++) {
        LOCATE(round);
        if (task < TASKS) {
            UNROLLED(SUMS)
            for (int i = 0; i < SUMS; i++)
                sums[i] = 0.0f;
            multiply(sums, X_TILE(0), W_TILE(0, 0), filters);
            if (image < images)
                write_tile(Y_TILE, sums, row, column, block_rows, filters);
        }
    }
#else
    LOCATE(0);
    UNROLLED(SUMS)
    for (int i = 0; i < SUMS; i++)
        sums[i] = 0.0f;
#if COPY_BY == COPY_BY_CP_ASYNC
    STAGE(0, 0);
#endif
    UNROLLED(1)
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
#if COPY_BY == COPY_BY_CP_ASYNC
        if (chunk + 1 < CHUNKS) {   // the next channels are on their way while these are multiplied
            STAGE((chunk + 1) % 2, (chunk + 1) * STAGED_C);
            COPY_ASYNC_WAIT(1);
        } else
            COPY_ASYNC_WAIT(0);
#else
        STAGE(0, chunk * STAGED_C);
#endif
        __syncthreads();
        if (task < TASKS)
            multiply(sums, X_TILE(chunk % STAGES), W_TILE(chunk % STAGES, chunk * STAGED_C), filters);
        __syncthreads();
    }
    if (task < TASKS && image < images)
        write_tile(Y_TILE, sums, row, column, block_rows, filters);
#endif
}
