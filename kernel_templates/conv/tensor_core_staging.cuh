// tensor_core: x and w on their way to shared memory, as lanes read them.

// Which channel and filter column term k is; false for the terms that only fill up. PAIRED: c is the first of two.
__device__ __forceinline__ bool locate_term(int k, int *c, int *q)
{
    *q = k % WINDOW;
    *c = k / WINDOW * (PAIRED ? 2 : 1);
    return k < WORD_C * WINDOW;
}

// For lane t of step s: the offsets of terms t (low half) and t + 4 (high half) from a pixel's corner, in words.
__device__ __forceinline__ void fill_offsets(unsigned *offsets)
{
    for (int i = threadIdx.x; i < STEPS * 4; i += THREADS) {
        unsigned word = 0;
        UNROLLED(2)
        for (int half = 0; half < 2; half++) {
            int c, q;
            if (locate_term(i / 4 * 8 + i % 4 + half * 4, &c, &q))
                word |= (unsigned)(c * PLANE + q) << (16 * half);
        }
        offsets[i] = word;
    }
}

// Clear the words of w that stage_w leaves out: terms that only fill up.
__device__ __forceinline__ void clear_w(unsigned *fragments)
{
    const unsigned none[4] = {};
    for (int i = threadIdx.x * 4; i < W_WORDS; i += THREADS * 4)
        words<4>(fragments + i) = words<4>(none);
}

// Ask for the filters of channels c_first on as they are; they arrive with the words of x that are asked for next.
__device__ __forceinline__ void request_w(float *raw, const float *w, int c_first, int filters)
{
    for (unsigned i = threadIdx.x; i < RAW_FILTERS * (RAW_W / RAW_WIDTH); i += THREADS) {
        const unsigned m = i / (RAW_W / RAW_WIDTH), at = i % (RAW_W / RAW_WIDTH) * RAW_WIDTH;
        if ((int)m < filters)
            copy_async<RAW_WIDTH>(shared_address(raw + m * RAW_PITCH + at), w + (m * LAYER_C + c_first) * FILTER + at);
    }
}

// Put filters as the lanes read them: [step][p][8 columns][lane][terms t, t + 4]. from: those of the first channel, pitch
// words apart. A thread reads some filters' columns before it uses the first: one by one they would wait for the L2 cache.
__device__ __forceinline__ void stage_w(unsigned *to, const float *from, int pitch, int filters)
{
    UNROLLED(1)
    for (unsigned begin = threadIdx.x; begin < W_COLUMNS; begin += W_BATCH * THREADS) {
        float first[W_BATCH][LAYER_K] = {}, second[W_BATCH][LAYER_K] = {};
        UNROLLED(W_BATCH)
        for (int j = 0; j < W_BATCH; j++) {
            const unsigned i = begin + j * THREADS;
            const unsigned q = i % LAYER_K, c = i / LAYER_K % WORD_C, m = i / LAYER_K / WORD_C;
            const float *const source = from + m * pitch + c * (PAIRED ? 2 : 1) * FILTER + q;
            UNROLLED(LAYER_K)
            for (int p = 0; i < W_COLUMNS && (int)m < filters && p < LAYER_K; p++) {
                first[j][p] = source[p * LAYER_K];
                if (PAIRED && c * 2 + 1 < STAGED_C) second[j][p] = source[p * LAYER_K + FILTER];
            }
        }
        UNROLLED(W_BATCH)
        for (int j = 0; j < W_BATCH; j++) {
            const unsigned i = begin + j * THREADS;
            const unsigned q = i % LAYER_K, c = i / LAYER_K % WORD_C, m = i / LAYER_K / WORD_C;
            UNROLLED(PIXELS_PER_ROW)
            for (int shift = 0; i < W_COLUMNS && shift < PIXELS_PER_ROW; shift++) {
                const unsigned n = m * PIXELS_PER_ROW + shift, k = c * WINDOW + q + shift;
                unsigned *const target = to + (k / 8 * LAYER_K * BLOCK_N_TILES * 32 + n / 8 * 32 + n % 8 * 4 + k % 4) * FRAGMENT
                                            + k / 4 % 2;
                UNROLLED(LAYER_K)
                for (int p = 0; p < LAYER_K; p++) {
                    target[p * BLOCK_N_TILES * 32 * FRAGMENT] = larger(first[j][p], second[j][p]);
                    if (PARTS == 2) target[p * BLOCK_N_TILES * 32 * FRAGMENT + 2] = smaller(first[j][p], second[j][p]);
                }
            }
        }
    }
}

// Read the lane's words of w for all products of the one step. w: the first filter of the warp's group of channels.
__device__ __forceinline__ void load_w(unsigned (*kept)[FRAGMENT], const float *w, int filters)
{
    UNROLLED(KEPT)
    for (int i = 0; i < KEPT; i++) {
        const int column = i % N_TILES * 8 + threadIdx.x % 32 / 4, m = column / PIXELS_PER_ROW;
        UNROLLED(2)
        for (int half = 0; half < 2; half++) {
            int c, q;
            const bool is_term = locate_term(threadIdx.x % 4 + half * 4, &c, &q);
            q -= column % PIXELS_PER_ROW;
            const float *const source = w + (m * LAYER_C + c) * FILTER + i / N_TILES * LAYER_K + q;
            float first = 0.0f, second = 0.0f;
            if (is_term && m < filters && q >= 0 && q < LAYER_K) {
                first = source[0];
                if (PAIRED && c + 1 < LAYER_C) second = source[FILTER];
            }
            kept[i][half] = larger(first, second);
            if (PARTS == 2) kept[i][half + 2] = smaller(first, second);
        }
    }
}

// Do for each few words that this thread copies: of an image's channel c (or c and the next) and row, from column at on.
#define FOR_EACH_COPY(images, rows)                                                                             \
    for (int i = threadIdx.x; i < IMAGES * WORD_C * RUNS * (RUN / LOAD_WIDTH); i += THREADS)                    \
        if (const int run = i / (RUN / LOAD_WIDTH), row = run % RUNS, at = i % (RUN / LOAD_WIDTH) * LOAD_WIDTH, \
            c = run / RUNS % WORD_C * (PAIRED ? 2 : 1), image = run / RUNS / WORD_C;                            \
            image < (images) && row < (rows))

// Ask for channels c_first on of a set of images; they arrive later.
__device__ __forceinline__ void request_x(unsigned *to, const float *x, int images, int rows)
{
    FOR_EACH_COPY(images, rows) {
        float *target = (float *)to + (image * STAGED_C + c) * PLANE + row * LAYER_W + at;
        const float *source = x + ((image * LAYER_C + c) * LAYER_H + row) * LAYER_W + at;
        copy_async<LOAD_WIDTH>(shared_address(target), source);
        if (PAIRED && c + 1 < STAGED_C) copy_async<LOAD_WIDTH>(shared_address(target + PLANE), source + LAYER_H * LAYER_W);
    }
    copy_async_commit();
}

#if PREFETCH
// The first blocks of every PREFETCH bring the x of the PREFETCH after those into the L2 cache, SHARE sets of images each.
__device__ __forceinline__ void prefetch_x(const float *x, int B)
{
    const unsigned place = blockIdx.x % PREFETCH, first = (blockIdx.x - place + PREFETCH + place * SHARE) * IMAGES;
    const int images = LEAST(B - (int)first, SHARE * IMAGES);
    if (threadIdx.x == 0 && place < PREFETCH / SHARE && images > 0)
        bulk_prefetch(x + (size_t)first * (LAYER_C * LAYER_H * LAYER_W) / 4 * 4,
                      images * (LAYER_C * LAYER_H * LAYER_W) / 4 * 16);   // runs of 16 bytes
}
#endif

// Turn what this thread has copied into operands, in place.
__device__ __forceinline__ void convert_x(unsigned *staged, int images, int rows)
{
    FOR_EACH_COPY(images, rows) {
        unsigned *target = staged + (image * STAGED_C + c) * PLANE + row * LAYER_W + at;
        float first[LOAD_WIDTH], second[LOAD_WIDTH] = {};
        unsigned large[LOAD_WIDTH], small[LOAD_WIDTH];
        words<LOAD_WIDTH>(first) = words<LOAD_WIDTH>((float *)target);
        if (PAIRED && c + 1 < STAGED_C) words<LOAD_WIDTH>(second) = words<LOAD_WIDTH>((float *)target + PLANE);
        UNROLLED(LOAD_WIDTH)
        for (int j = 0; j < LOAD_WIDTH; j++) {
            large[j] = larger(first[j], second[j]);
            small[j] = smaller(first[j], second[j]);
        }
        words<LOAD_WIDTH>(target) = words<LOAD_WIDTH>(large);
        if constexpr (MMA_TYPE == MMA_TYPE_FP16X3) words<LOAD_WIDTH>(target + PLANE) = words<LOAD_WIDTH>(small);
    }
}

// Set words to 0 that follow the last image in a buffer: a row's last pixels read on, times 0.
__device__ __forceinline__ void end_x(unsigned *staged, int images)
{
    for (int image = LEAST(images, IMAGES); BEYOND && image <= IMAGES && threadIdx.x < BEYOND; image++)
        staged[image * STAGED_C * PLANE + threadIdx.x] = 0;
}
