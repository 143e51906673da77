// shared_tile: direct, with the block's part of x, of w, or of both staged in shared memory first.
//
// Thread -> output: block (b, m or all m, tile) owns TILE_WIDTH x TILE_WIDTH pixels of image b, or the whole image
// (TILE_WIDTH = 0); its threads walk the tile's pixels in rounds, flat when BLOCK_Y = 1, else by columns and rows.
// fa17/conv1 with 1024x1, whole image: 24x24 = 576 pixels, 1 round with 448 idle; 28x28 = 784 words of x and
// 50x25 = 1250 of w staged once, then 50 channels x 25 terms a thread without touching global memory.
//
// Parameters
//   BLOCK_SHAPE      threads of a block              CONST_K, CONST_M, CONST_SIZES  known to the compiler
//   GRID_LAYOUT      B,M,1 or B,1,1 (M loop inside)  UNROLL    filter terms unrolled: 1, 2, a row, the whole filter
//   TILE_WIDTH       output pixels along each side   CHANNELS  staged all at once, or one by one
//   STAGE_X, STAGE_W through shared memory or not    WEIGHTS   where an unstaged w is read: global or constant
// Constraints, sizes and launch: in shared_tile.py.

#if STAGE_X
#define X_SPACE SHARED
#else
#define X_SPACE GLOBAL
#endif
#if STAGE_W
#define W_SPACE SHARED
#define W_ARGUMENT GLOBAL
#define W_BASE w_staged
#elif WEIGHTS == WEIGHTS_CONSTANT
WEIGHTS_IN_CONSTANT(WEIGHT_WORDS)
#define W_SPACE CONSTANT
#define W_ARGUMENT CONSTANT
#define W_BASE CONSTANT_WEIGHTS(w)
#else
#define W_SPACE GLOBAL
#define W_ARGUMENT GLOBAL
#define W_BASE w
#endif

// Add the products of some channels to a sum; x points at the patch's corner, w at the filter of the first channel.
__device__ __forceinline__ float add_channels(float sum, int channels, X_SPACE const float *x, int x_plane, int x_row,
                                              W_SPACE const float *w, int K)
{
    for (int c = 0; c < channels; c++)
        UNROLLED(ROWS_UNROLLED)
        for (int p = 0; p < K; p++)
            UNROLLED(TERMS_UNROLLED)
            for (int q = 0; q < K; q++)
                sum = fmaf(x[c * x_plane + p * x_row + q], w[(c * K + p) * K + q], sum);
    return sum;
}

__global__ void __launch_bounds__(THREADS)
conv_forward(GLOBAL const float *__restrict__ x, W_ARGUMENT const float *__restrict__ w, GLOBAL float *__restrict__ y,
             int B, int C_arg, int H_arg, int W_arg, int M_arg, int K_arg)
{
    const int C = CONST_SIZES ? LAYER_C : C_arg;
    const int H = CONST_SIZES ? LAYER_H : H_arg;
    const int W = CONST_SIZES ? LAYER_W : W_arg;
    const int M = CONST_M ? LAYER_M : M_arg;
    const int K = CONST_K ? LAYER_K : K_arg;
    const int H_out = H - K + 1, W_out = W - K + 1;
    const int rows = TILE_WIDTH ? TILE_WIDTH : H_out, columns = TILE_WIDTH ? TILE_WIDTH : W_out;
    const int in_rows = rows + K - 1, in_columns = columns + K - 1;
    const int x_row = STAGE_X ? in_columns : W, x_plane = STAGE_X ? in_rows * in_columns : H * W;
    const int tiles_across = (W_out + columns - 1) / columns;
    const int h_first = blockIdx.z / tiles_across * rows, w_first = blockIdx.z % tiles_across * columns;
    const int m_first = LOOP_M ? 0 : blockIdx.y, m_end = LOOP_M ? M : m_first + 1;
    const int thread = threadIdx.y * BLOCK_X + threadIdx.x;

    SHARED_MEMORY(float, staged, SHARED_WORDS);
#define x_staged staged
#define w_staged (staged + X_WORDS)
    x += (size_t)blockIdx.x * C * H * W + h_first * W + w_first;
    y += (size_t)blockIdx.x * M * H_out * W_out + h_first * W_out + w_first;

// Copy the input patch of channels c to c + STAGED_C, 30x30 words each for a whole conv2 image; past the edge: nothing.
#define STAGE_PATCH(c)                                                                        \
    for (int i = thread; i < STAGED_C * in_rows * in_columns; i += THREADS) {                 \
        const int plane = i / (in_rows * in_columns), at = i % (in_rows * in_columns);        \
        const int h = at / in_columns, q = at % in_columns;                                   \
        if (h_first + h < H && w_first + q < W)                                               \
            x_staged[i] = x[(((c) + plane) * H + h) * W + q];                                 \
    }
// Copy consecutive filters, K x K words for each channel.
#define STAGE_FILTERS(m, c, count)                                                            \
    for (int i = thread; i < (count) * K * K; i += THREADS)                                   \
        w_staged[i] = w[((m) * C + (c)) * K * K + i];
// Where round r puts this thread: row h and column q of the tile, inside the image or not.
#define LOCATE(r)                                                                             \
    const int pixel = (r) * THREADS + thread;                                                 \
    const int h = FLAT ? pixel / columns : (r) / ROUNDS_X * BLOCK_Y + threadIdx.y;            \
    const int q = FLAT ? pixel % columns : (r) % ROUNDS_X * BLOCK_X + threadIdx.x;            \
    const int inside = h < rows && q < columns && h_first + h < H_out && w_first + q < W_out;
#if STAGE_X
#define X_AT(c) (x_staged + h * x_row + q)
#else
#define X_AT(c) (x + (c) * x_plane + h * x_row + q)
#endif

#if CHANNELS == CHANNELS_ALL
#if STAGE_X
    STAGE_PATCH(0)
#endif
#if STAGE_W
    STAGE_FILTERS(m_first, 0, (m_end - m_first) * C)
#endif
    __syncthreads();
    UNROLLED(1)
    for (int r = 0; r < ROUNDS; r++) {
        LOCATE(r)
        if (inside)
            for (int m = m_first; m < m_end; m++)
                y[(m * H_out + h) * W_out + q] =
                    add_channels(0.0f, C, X_AT(0), x_plane, x_row, W_BASE + (STAGE_W ? m - m_first : m) * C * K * K, K);
    }
#else
    for (int m = m_first; m < m_end; m++) {
        float sums[ROUNDS];
        UNROLLED(ROUNDS)
        for (int r = 0; r < ROUNDS; r++)
            sums[r] = 0.0f;
        for (int c = 0; c < C; c++) {
            __syncthreads();   // the channel before is no longer read
#if STAGE_X
            STAGE_PATCH(c)
#endif
#if STAGE_W
            STAGE_FILTERS(m, c, 1)
#endif
            __syncthreads();
            UNROLLED(ROUNDS)
            for (int r = 0; r < ROUNDS; r++) {
                LOCATE(r)
                if (inside)
                    sums[r] = add_channels(sums[r], 1, X_AT(c), x_plane, x_row, W_BASE + (STAGE_W ? 0 : (m * C + c) * K * K), K);
            }
        }
        __syncthreads();   // PoCL 3.0 lets idle threads write y when one branch sums and writes
        UNROLLED(ROUNDS)
        for (int r = 0; r < ROUNDS; r++) {
            LOCATE(r)
            if (inside)
                y[(m * H_out + h) * W_out + q] = sums[r];
        }
    }
#endif
}
