// channel_vector: a CPU's thread keeps a tile of pixels, each in vectors of output channels, so that a word of x, read into
// all lanes, is multiplied by the weights of as many channels as a register holds.
//
// Thread -> output: a block is one thread. It owns IMAGES images, ROWS output rows of each (0: all) and a group of VECTORS
// vectors of VECTOR channels; it lays the group's weights out as [c][p][q][m], then goes through rows and columns by tiles
// of TILE_H x TILE_W pixels. A tile that would hang over begins earlier, and repeats what is there already.
// sp18/conv2, TILE 1x13, a vector of 16: 13 registers of sums; a filter row is 13*5 = 65 multiply-adds of 16 words for 5
// loads of w and 17 of x; an image has 26 rows x 2 tiles, and the group's weights are 150 vectors.
//
// Parameters
//   VECTOR, VECTORS  channels in a vector, and vectors in a tile    TILE_W, TILE_H  pixels of a tile
//   UNROLL           filter terms unrolled: a row, or all           IMAGES, ROWS    of a thread
// Constraints, sizes and launch: in channel_vector.py.

#define LEAST(a, b) ((a) < (b) ? (a) : (b))

typedef JOINED(float, VECTOR) lanes;

#include "channel_vector_writes.cuh"

// Lay the group's filters out as [c][p][q][m]; the weights of a channel beyond the last are zero.
__device__ __forceinline__ void stage_w(SHARED float *to, GLOBAL const float *w, int filters)
{
    UNROLLED(1)
    for (int m = 0; m < GROUP_M; m++)
        UNROLLED(1)
        for (int term = 0; term < LAYER_C * FILTER; term++)
            to[term * GROUP_M + m] = m < filters ? w[m * LAYER_C * FILTER + term] : 0.0f;
}

// Sum the C*K*K products of a tile; x: its corner. All loops but that over c are unrolled, so that sums stay in registers.
__device__ __forceinline__ void multiply(lanes *sums, GLOBAL const float *x, SHARED const float *w)
{
    UNROLLED(SUMS)
    for (int i = 0; i < SUMS; i++)
        sums[i] = 0.0f;
    UNROLLED(1)
    for (int c = 0; c < LAYER_C; c++)
        UNROLLED(UNROLL == UNROLL_FILTER ? LAYER_K : 1)
        for (int p = 0; p < LAYER_K; p++)
            UNROLLED(LAYER_K)
            for (int q = 0; q < LAYER_K; q++)
                UNROLLED(VECTORS)
                for (int v = 0; v < VECTORS; v++) {
                    const lanes weights = LOAD_WORDS(VECTOR, w + ((c * LAYER_K + p) * LAYER_K + q) * GROUP_M + v * VECTOR);
                    UNROLLED(TILE_H)
                    for (int h = 0; h < TILE_H; h++)
                        UNROLLED(TILE_W)
                        for (int i = 0; i < TILE_W; i++) {
                            const int sum = (v * TILE_H + h) * TILE_W + i;
                            sums[sum] = x[(c * LAYER_H + h + p) * LAYER_W + i + q] * weights + sums[sum];
                        }
                }
}

__global__ void conv_forward(GLOBAL const float *__restrict__ x, GLOBAL const float *__restrict__ w,
                             GLOBAL float *__restrict__ y, int B, int C_, int H_, int W_, int M_, int K_)
{
    SHARED_MEMORY(float, staged, W_WORDS);
    const int m_first = blockIdx.z * GROUP_M;
    const int filters = LAYER_M % GROUP_M ? LAYER_M - m_first : GROUP_M;
    const int h_first = blockIdx.y * BLOCK_ROWS, h_end = LEAST(h_first + BLOCK_ROWS, H_OUT);
    const int images = LEAST(B - (int)blockIdx.x * IMAGES, IMAGES);
    x += (size_t)blockIdx.x * IMAGES * LAYER_C * LAYER_H * LAYER_W;
    y += ((size_t)blockIdx.x * IMAGES * LAYER_M + m_first) * H_OUT * W_OUT;
    stage_w(staged, w + m_first * LAYER_C * FILTER, filters);
    UNROLLED(1)
    for (int image = 0; image < images; image++)
        UNROLLED(1)
        for (int h = h_first; h < h_end; h += TILE_H)
            UNROLLED(1)
            for (int strip = 0; strip < STRIPS; strip++) {
                const int row = LEAST(h, H_OUT - TILE_H), column = LEAST(strip * TILE_W, W_OUT - TILE_W);
                lanes sums[SUMS];
                multiply(sums, x + (image * LAYER_C * LAYER_H + row) * LAYER_W + column, staged);
                UNROLLED(VECTORS * TILE_H)
                for (int i = 0; i < VECTORS * TILE_H; i++)
                    write_row(y + ((image * LAYER_M + i / TILE_H * VECTOR) * H_OUT + row + i % TILE_H) * W_OUT + column,
                              sums + i * TILE_W, filters - i / TILE_H * VECTOR);
            }
}
