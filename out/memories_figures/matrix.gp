# gnuplot matrix.gp draws matrix.svg and matrix.png

reset
set terminal svg noenhanced size 944,908 font 'Helvetica,13' background rgb 'white'
set output 'matrix.svg'
set multiplot
unset key
unset border
set xrange [-0.5:21.5]
set yrange [30.5:-0.5]
unset xtics
set ytics nomirror ('full_state' 0, 'slstm' 1, 'rg_lru' 2, 'hqlt_delayed_chunk' 3, 'gru' 4, 'ffm' 5, 's5' 6, 'hqlt' 7, 'hqlt_delayed_stream' 8, 'lstm' 9, 'lru' 10, 'transformer' 11, 'gated_deltanet' 12, 'mamba2' 13, 'linear_transformer' 14, 'delta_2021' 15, 'gtrxl' 16, 'dpfp' 17, 'expansion_span' 18, 'deltanet' 19, 'transformer++' 20, 'performer' 21, 'retnet' 22, 'gla' 23, 'deltanet_window' 24, 'min_gru' 25, 'shm' 26, 'rnn' 27, 'mlstm' 28, 'frame_stack' 29, 'none' 30) scale 0
set lmargin at screen 0.1864406779661017
set rmargin at screen 0.8389830508474576
set bmargin at screen 0.013215859030836996
set tmargin at screen 0.8325991189427313
set label 'tmaze_10' at -0.1,-0.8 rotate by 40 left
set label 'tmaze_20' at 0.9,-0.8 rotate by 40 left
set label 'tmaze_50' at 1.9,-0.8 rotate by 40 left
set label 'visual_match_0' at 2.9,-0.8 rotate by 40 left
set label 'visual_match_50' at 3.9,-0.8 rotate by 40 left
set label 'visual_match_100' at 4.9,-0.8 rotate by 40 left
set label 'visual_match_250' at 5.9,-0.8 rotate by 40 left
set label 'key_to_door_60' at 6.9,-0.8 rotate by 40 left
set label 'repeat_first_easy' at 7.9,-0.8 rotate by 40 left
set label 'repeat_first_medium' at 8.9,-0.8 rotate by 40 left
set label 'repeat_first_hard' at 9.9,-0.8 rotate by 40 left
set label 'repeat_previous_easy' at 10.9,-0.8 rotate by 40 left
set label 'repeat_previous_medium' at 11.9,-0.8 rotate by 40 left
set label 'repeat_previous_hard' at 12.9,-0.8 rotate by 40 left
set label 'autoencode_easy' at 13.9,-0.8 rotate by 40 left
set label 'concentration_easy' at 14.9,-0.8 rotate by 40 left
set label 'memory_len_30' at 15.9,-0.8 rotate by 40 left
set label 'memory_len_100' at 16.9,-0.8 rotate by 40 left
set label 'minigrid_memory_s9' at 17.9,-0.8 rotate by 40 left
set label 'minigrid_memory_s11' at 18.9,-0.8 rotate by 40 left
set label 'minigrid_memory_s13' at 19.9,-0.8 rotate by 40 left
set label 'minigrid_memory_s17_random' at 20.9,-0.8 rotate by 40 left
plot 'matrix.dat' using 1:2:(0.49):(0.47):4 with boxxyerror fs solid noborder lc rgb variable, 'matrix.dat' using 1:2:3:5 with labels tc rgb variable
unset multiplot
set output

reset
set terminal pngcairo noenhanced size 1888,1816 font 'Helvetica,20' linewidth 2 pointscale 2
set output 'matrix.png'
set multiplot
unset key
unset border
set xrange [-0.5:21.5]
set yrange [30.5:-0.5]
unset xtics
set ytics nomirror ('full_state' 0, 'slstm' 1, 'rg_lru' 2, 'hqlt_delayed_chunk' 3, 'gru' 4, 'ffm' 5, 's5' 6, 'hqlt' 7, 'hqlt_delayed_stream' 8, 'lstm' 9, 'lru' 10, 'transformer' 11, 'gated_deltanet' 12, 'mamba2' 13, 'linear_transformer' 14, 'delta_2021' 15, 'gtrxl' 16, 'dpfp' 17, 'expansion_span' 18, 'deltanet' 19, 'transformer++' 20, 'performer' 21, 'retnet' 22, 'gla' 23, 'deltanet_window' 24, 'min_gru' 25, 'shm' 26, 'rnn' 27, 'mlstm' 28, 'frame_stack' 29, 'none' 30) scale 0
set lmargin at screen 0.1864406779661017
set rmargin at screen 0.8389830508474576
set bmargin at screen 0.013215859030836996
set tmargin at screen 0.8325991189427313
set label 'tmaze_10' at -0.1,-0.8 rotate by 40 left
set label 'tmaze_20' at 0.9,-0.8 rotate by 40 left
set label 'tmaze_50' at 1.9,-0.8 rotate by 40 left
set label 'visual_match_0' at 2.9,-0.8 rotate by 40 left
set label 'visual_match_50' at 3.9,-0.8 rotate by 40 left
set label 'visual_match_100' at 4.9,-0.8 rotate by 40 left
set label 'visual_match_250' at 5.9,-0.8 rotate by 40 left
set label 'key_to_door_60' at 6.9,-0.8 rotate by 40 left
set label 'repeat_first_easy' at 7.9,-0.8 rotate by 40 left
set label 'repeat_first_medium' at 8.9,-0.8 rotate by 40 left
set label 'repeat_first_hard' at 9.9,-0.8 rotate by 40 left
set label 'repeat_previous_easy' at 10.9,-0.8 rotate by 40 left
set label 'repeat_previous_medium' at 11.9,-0.8 rotate by 40 left
set label 'repeat_previous_hard' at 12.9,-0.8 rotate by 40 left
set label 'autoencode_easy' at 13.9,-0.8 rotate by 40 left
set label 'concentration_easy' at 14.9,-0.8 rotate by 40 left
set label 'memory_len_30' at 15.9,-0.8 rotate by 40 left
set label 'memory_len_100' at 16.9,-0.8 rotate by 40 left
set label 'minigrid_memory_s9' at 17.9,-0.8 rotate by 40 left
set label 'minigrid_memory_s11' at 18.9,-0.8 rotate by 40 left
set label 'minigrid_memory_s13' at 19.9,-0.8 rotate by 40 left
set label 'minigrid_memory_s17_random' at 20.9,-0.8 rotate by 40 left
plot 'matrix.dat' using 1:2:(0.49):(0.47):4 with boxxyerror fs solid noborder lc rgb variable, 'matrix.dat' using 1:2:3:5 with labels tc rgb variable
unset multiplot
set output
